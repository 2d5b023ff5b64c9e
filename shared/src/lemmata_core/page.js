// Sorting and filtering. Without scripts the tables are whole and in their own order.
"use strict";
(() => {
  const order = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  const make = (tag, attributes = {}, text = "") => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    element.textContent = text;
    return element;
  };
  const key = (cell) => {
    const raw = cell.dataset.sort ?? cell.textContent.trim();
    return raw === "" ? null : cell.dataset.number === undefined ? raw : Number(raw);
  };
  // What is missing, and NaN, stands last in either direction.
  const absent = (value) => value === null || Number.isNaN(value);
  const compare = (a, b, sign) => {
    if (absent(a) || absent(b)) return absent(a) - absent(b);
    if (typeof a === "number" && typeof b === "number") return sign * (a < b ? -1 : a > b ? 1 : 0);
    if (typeof a === "number") return -sign;
    if (typeof b === "number") return sign;
    return sign * order.compare(a, b);
  };

  for (const table of document.querySelectorAll("table[data-sortable]")) {
    const body = table.tBodies[0];
    const original = [...body.rows];
    const headers = [...table.tHead.rows[0].cells];
    const names = headers.map((header) => header.textContent.trim());
    let sorted = -1;
    let sign = 1;

    const sort = (column, direction) => {
      sorted = column;
      sign = direction;
      const rows = [...original];
      if (column >= 0) rows.sort((a, b) => compare(key(a.cells[column]), key(b.cells[column]), direction));
      body.append(...rows);
      headers.forEach((header, i) => {
        header.setAttribute("aria-sort", i !== column ? "none" : direction > 0 ? "ascending" : "descending");
      });
      const select = table.parentElement.parentElement.querySelector("select[data-role=sort]");
      if (select) select.value = column < 0 ? "" : `${column}:${direction}`;
    };

    headers.forEach((header, i) => {
      const button = make("button", { type: "button" }, names[i]);
      button.addEventListener("click", () => {
        if (sorted === i && sign < 0) sort(-1, 1);
        else sort(i, sorted === i ? -1 : 1);
      });
      header.replaceChildren(button);
      header.setAttribute("aria-sort", "none");
    });

    const choices = JSON.parse(table.dataset.choices ?? "[]");
    const stacked = table.classList.contains("stack");
    if (table.dataset.search === undefined && choices.length === 0 && !stacked) continue;
    const controls = make("div", { class: "controls", role: "group", "aria-label": `Filter: ${table.caption.textContent}` });
    const labelled = (text, element, extra = "") => {
      const label = make("label", { class: extra }, text);
      label.append(element);
      controls.append(label);
    };
    let search = null;
    if (table.dataset.search !== undefined) {
      search = make("input", { type: "search", placeholder: "any words", autocomplete: "off" });
      labelled("Search", search);
    }
    const selects = choices.map((column) => {
      const select = make("select", { "data-column": names[column] });
      const values = [...new Set(original.map((row) => row.cells[column].dataset.sort ?? row.cells[column].textContent.trim()))];
      select.append(make("option", { value: "*" }, "all"));
      for (const value of values.sort(order.compare)) select.append(make("option", { value: `=${value}` }, value || "–"));
      labelled(names[column], select);
      return { column, select };
    });
    if (stacked) {
      const select = make("select", { "data-role": "sort" });
      select.append(make("option", { value: "" }, "as run"));
      names.forEach((name, i) => {
        select.append(make("option", { value: `${i}:1` }, `${name} ↑`), make("option", { value: `${i}:-1` }, `${name} ↓`));
      });
      select.addEventListener("change", () => {
        const [column, direction] = select.value === "" ? [-1, 1] : select.value.split(":").map(Number);
        sort(column, direction);
      });
      labelled("Sort", select, "narrow-only");
    }
    const count = make("output", { "aria-live": "polite" });
    controls.append(count);

    const filter = () => {
      const words = (search?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      for (const row of original) {
        const text = row.textContent.toLowerCase();
        const fits =
          words.every((word) => text.includes(word)) &&
          selects.every(({ column, select }) => {
            const cell = row.cells[column];
            return select.value === "*" || select.value === `=${cell.dataset.sort ?? cell.textContent.trim()}`;
          });
        row.hidden = !fits;
        shown += fits;
      }
      count.textContent = shown === original.length ? `${shown} rows` : `${shown} of ${original.length} rows`;
    };
    controls.addEventListener("input", filter);
    controls.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && search) {
        search.value = "";
        filter();
      }
    });
    table.parentElement.before(controls);
    filter();
  }

  // A closed part is opened when a link leads into it, and for the printer.
  const reveal = () => {
    let name = location.hash.slice(1);
    try {
      name = decodeURIComponent(name);
    } catch {
      return; // a stray percent sign names nothing
    }
    const target = document.getElementById(name);
    for (let element = target; element; element = element.parentElement) if (element.tagName === "DETAILS") element.open = true;
  };
  addEventListener("hashchange", reveal);
  reveal();
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const element of closed) element.open = true;
  });
  addEventListener("afterprint", () => {
    for (const element of closed) element.open = false;
  });
})();
