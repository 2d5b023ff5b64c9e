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
