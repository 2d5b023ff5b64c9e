"""Data of the demonstrations: tetris pieces, chiral molecules, molecules with energies and forces.

ase, tblite and rdkit are needed by those who run the demonstrations only; they are loaded by name when called.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

Tensor = torch.Tensor
Molecule = tuple[Tensor, Tensor]

# The eight tetris pieces of e3nn's tutorial; the first two are mirror images of each other, the others their own.
TETRIS = (
    ((0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 1, 0)),
    ((0, 0, 0), (0, 0, 1), (1, 0, 0), (1, -1, 0)),
    ((0, 0, 0), (1, 0, 0), (0, 1, 0), (1, 1, 0)),
    ((0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 0, 3)),
    ((0, 0, 0), (0, 0, 1), (0, 1, 0), (1, 0, 0)),
    ((0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 0)),
    ((0, 0, 0), (0, 0, 1), (0, 0, 2), (0, 1, 1)),
    ((0, 0, 0), (1, 0, 0), (1, 1, 0), (2, 1, 0)),
)
ELEMENTS = ("H", "C", "N", "O", "F", "S", "Cl", "Br")


def tetris() -> tuple[list[Molecule], Tensor]:
    """The pieces, one species, with targets 1, -1 for the chiral pair and 0 for the rest."""
    pieces = [(torch.tensor(piece, dtype=torch.float32), torch.zeros(4, dtype=torch.long)) for piece in TETRIS]
    target = torch.zeros(8)
    target[0], target[1] = 1, -1
    return pieces, target


def chiral_molecules(most_heavy: int = 13) -> list[tuple[int, np.ndarray, np.ndarray, int]]:
    """Molecules of the NCI open database with exactly one stereocentre, three embeddings each.

    Returns
    -------
    list of (molecule number, positions [n, 3] in angstrom, element numbers into ELEMENTS [n], label)
        The label is +1 for R and -1 for S, assigned from the coordinates by the rules of Cahn, Ingold and Prelog.
    """
    chem, all_chem = import_module("rdkit.Chem"), import_module("rdkit.Chem.AllChem")
    import_module("rdkit.RDLogger").DisableLog("rdApp.*")
    source = Path(import_module("rdkit.RDConfig").RDDataDir) / "NCI" / "first_5K.smi"
    seen: set[str] = set()
    out = []
    for line in source.read_text().splitlines():
        words = line.split()
        if not words or "." in words[0]:
            continue
        mol = chem.MolFromSmiles(words[0])
        if mol is None or mol.GetNumHeavyAtoms() > most_heavy:
            continue
        if any(atom.GetSymbol() not in ELEMENTS for atom in mol.GetAtoms()):
            continue
        chem.RemoveStereochemistry(mol)
        name = chem.MolToSmiles(mol)
        mol = chem.MolFromSmiles(name)
        if name in seen or len(chem.FindMolChiralCenters(mol, includeUnassigned=True)) != 1:
            continue
        seen.add(name)
        out += _embeddings(chem, all_chem, mol, len(seen))
    return out


def _embeddings(chem: Any, all_chem: Any, mol: Any, number: int) -> list[tuple[int, np.ndarray, np.ndarray, int]]:
    mol = chem.AddHs(mol)
    parameters = all_chem.ETKDGv3()
    parameters.randomSeed = number
    found = []
    for conformer in all_chem.EmbedMultipleConfs(mol, 3, parameters):
        chem.AssignStereochemistryFrom3D(mol, conformer)
        centres = chem.FindMolChiralCenters(mol, useLegacyImplementation=False)
        if len(centres) == 1 and centres[0][1] in ("R", "S"):
            species = np.array([ELEMENTS.index(atom.GetSymbol()) for atom in mol.GetAtoms()])
            positions = np.array(mol.GetConformer(conformer).GetPositions())
            found.append((number, positions, species, 1 if centres[0][1] == "R" else -1))
    return found


def pair_potential_error(train: list[dict[str, Any]], test: list[dict[str, Any]], scale: float) -> float:
    """Mean absolute error of the forces of the best sum of pair potentials, the baseline of the demonstration.

    Twelve Gaussians of the distance for each pair of species; least squares on energies an atom and forces of the
    training frames, both over `scale` as in the network's loss, with a little damping (undamped it is twice as bad).
    """
    size = 4 * 4 * 12
    normal, right = np.zeros((size, size)), np.zeros(size)
    for frame in train:
        energy, force = _pair_features(frame)
        n = len(frame["species"])
        rows = np.concatenate([energy[None] / n, force * (1 / np.sqrt(3 * n))])
        values = np.concatenate([[frame["target"] / n], frame["forces"].ravel() / np.sqrt(3 * n)])
        normal += rows.T @ rows / scale**2
        right += rows.T @ values / scale**2
    fitted = np.linalg.lstsq(normal + 1e-6 * np.trace(normal) / size * np.eye(size), right, rcond=None)[0]
    errors = [np.abs(_pair_features(frame)[1] @ fitted - frame["forces"].ravel()) for frame in test]
    return float(np.concatenate(errors).mean())


def _pair_features(frame: dict[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """What the coefficients multiply in the energy, [192], and in the forces, [3 n, 192]."""
    centres, width = np.linspace(0.7, 3.5, 12), 0.25
    species, positions = frame["species"], frame["positions"]
    i, j = np.triu_indices(len(species), 1)
    line = positions[i] - positions[j]
    length = np.linalg.norm(line, axis=1)
    value = np.exp(-((length[:, None] - centres) ** 2) / (2 * width**2))
    slope = -value * (length[:, None] - centres) / width**2
    column = 12 * (4 * np.minimum(species[i], species[j]) + np.maximum(species[i], species[j]))[:, None] + np.arange(12)
    energy, force = np.zeros(192), np.zeros((len(species), 3, 192))
    np.add.at(energy, column.ravel(), value.ravel())
    push = -slope[:, None, :] * (line / length[:, None])[:, :, None]  # on atom i, by each Gaussian
    axes = np.arange(3)[None, :, None]
    np.add.at(force, (i[:, None, None], axes, column[:, None, :]), push)
    np.add.at(force, (j[:, None, None], axes, column[:, None, :]), -push)
    return energy, force.reshape(-1, 192)


def displaced_molecules(copies: int = 60, largest_force: float = 25.0) -> list[dict[str, Any]]:
    """G2 molecules of H, C, N and O (3 to 10 atoms, no magnetic moment) displaced at random, with GFN2-xTB energies and
    forces.

    Returns
    -------
    list of dict
        name, positions [n, 3] in angstrom, species [n], energy in eV, forces [n, 3] in eV / angstrom.
    """
    g2 = import_module("ase.collections").g2
    tblite = import_module("tblite.interface")
    bohr, hartree = 0.529177210903, 27.211386245988
    rng = np.random.default_rng(0)
    frames = []
    for name in g2.names:
        atoms = g2[name]
        symbols = atoms.get_chemical_symbols()
        if (
            not 3 <= len(atoms) <= 10
            or any(s not in "HCNO" for s in symbols)
            or atoms.get_initial_magnetic_moments().any()
        ):
            continue
        species = np.array(["HCNO".index(s) for s in symbols])
        for _ in range(copies):
            positions = atoms.positions + 0.06 * rng.standard_normal(atoms.positions.shape)
            calculator = tblite.Calculator("GFN2-xTB", atoms.numbers, positions / bohr)
            calculator.set("verbosity", 0)
            result = calculator.singlepoint()
            forces = -result.get("gradient") * hartree / bohr
            if np.abs(forces).max() <= largest_force:
                energy = float(result.get("energy")) * hartree
                frames.append(
                    {"name": name, "positions": positions, "species": species, "energy": energy, "forces": forces}
                )
    return frames
