"""What importing the package costs."""

import subprocess
import sys


def test_importing_loads_no_heavy_module_beyond_torch_and_numpy():
    code = (
        "import sys, torch, numpy; before = set(sys.modules); import optim_rmnp; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new)); "
        "loaded = {name.partition('.')[0] for name in sys.modules}; "
        "heavy = {'numba', 'sklearn', 'scipy', 'matplotlib', 'typer', 'rich'} & loaded; "
        "assert not heavy, heavy; assert 'torch._dynamo' not in sys.modules; "
        "assert 'torch.distributed.tensor' not in sys.modules; "
        "assert new <= set(sys.stdlib_module_names) | {'optim_rmnp', 'lemmata_core', 'torch', 'numpy'}, new"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_public_names_are_those_of_the_table_of_contents():
    import optim_rmnp

    wanted = {"RMNP", "row_normalize", "rmnp_step", "param_groups", "describe", "dominance", "polar_alignment"}
    assert wanted | {"DominanceMonitor", "Dominance", "ParamTable"} <= set(optim_rmnp.__all__)
    assert all(hasattr(optim_rmnp, name) for name in optim_rmnp.__all__)
