"""`rl-mfpo` on the command line: train, evaluate, export, measure, look."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer
from lemmata_core import InvalidInput
from lemmata_core.cli import FAILED, JsonOption, emit, fail
from lemmata_core.cli import app as make_app
from lemmata_core.progress import Progress

app = make_app("rl-mfpo", "Mean-flow policies for continuous control: train, evaluate, export.")

FileArgument = Annotated[Path, typer.Argument(help="What MFPO.save or `train` wrote.")]


def parse_settings(settings: list[str]) -> dict[str, Any]:
    """Fields of `MFPOConfig` from ``name=value``; a value is JSON (``64``, ``true``, ``[64, 64]``) or else a word."""
    made: dict[str, Any] = {}
    for text in settings:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise InvalidInput.argument("--set", expected="name=value", got=text)
        try:
            made[name.strip()] = json.loads(value)
        except json.JSONDecodeError:
            made[name.strip()] = value.strip()
    return made


@app.command()
def train(
    env: Annotated[str, typer.Argument(help="Id of a gymnasium environment, such as Pendulum-v1.")],
    steps: Annotated[int, typer.Option(min=0, help="Transitions in all, those of a resumed run included.")] = 1_000_000,
    preset: Annotated[str, typer.Option(help="paper, small or cpu.")] = "paper",
    seed: Annotated[int, typer.Option(min=0)] = 0,
    log_dir: Annotated[Path | None, typer.Option(help="By default runs/ENV-SEED.")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A field of MFPOConfig; repeatable.")
    ] = None,
    resume: Annotated[Path | None, typer.Option(help="Go on with the run in this log folder.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Begin anew in a folder that holds a run.")] = False,
    n_envs: Annotated[int, typer.Option(min=1, help="Copies of the environment.")] = 1,
    vectorization: Annotated[str, typer.Option(help="sync, or async: a process a copy.")] = "sync",
    device: str = "auto",
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Transitions between two checkpoints.")] = 10_000,
    eval_every: Annotated[int, typer.Option(min=0, help="Transitions between two evaluations; 0: none.")] = 10_000,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes an evaluation.")] = 10,
    log_interval: Annotated[int | None, typer.Option(min=1, help="Transitions between two rows of metrics.")] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Metrics for TensorBoard too.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a policy; its curve, checkpoints and the policy go to a folder. After Ctrl-C, --resume goes on exactly."""
    from rl_mfpo.agent import MFPO
    from rl_mfpo.callbacks import Callback, CheckpointCallback, EvalCallback
    from rl_mfpo.config import MFPOConfig
    from rl_mfpo.errors import TrainingDiverged
    from rl_mfpo.evaluation import evaluate
    from rl_mfpo.loggers import TensorBoardLogger

    folder = resume or log_dir or Path("runs") / f"{re.sub(r'[^A-Za-z0-9._-]+', '-', env)}-{seed}"
    if resume is not None:
        agent = _resume(resume, env, device)
        log_interval = log_interval or json.loads((folder / "run.json").read_text(encoding="utf-8"))["log_interval"]
    else:
        if not overwrite and (folder / "checkpoint").is_dir() and any((folder / "checkpoint").iterdir()):
            got = f"{folder}, which holds one: --resume {folder} goes on with it, --overwrite begins anew"
            raise InvalidInput.argument("log_dir", expected="a folder without a run", got=got)
        config = MFPOConfig.preset(preset).override(**parse_settings(settings or []))
        agent = MFPO(env, config=config, seed=seed, device=device, n_envs=n_envs, vectorization=vectorization)
        log_interval = log_interval or max(1, min(1000, steps // 50))
        folder.mkdir(parents=True, exist_ok=True)
        run = {"env": env, "seed": seed, "log_interval": log_interval, "config": config.to_dict()}
        (folder / "run.json").write_text(json.dumps(run, indent=2), encoding="utf-8")
    callbacks: list[Callback] = [CheckpointCallback(checkpoint_every, folder / "checkpoint", keep=1)]
    if eval_every:
        callbacks.append(EvalCallback(env, eval_every, episodes, folder / "best.mfpo"))
    if tensorboard:
        callbacks.append(TensorBoardLogger(folder / "tensorboard"))
    try:
        agent.learn(until=steps, callback=callbacks, log_interval=log_interval, log_dir=folder, progress_bar=True)
    except TrainingDiverged as err:
        fail(f"{err}; the last checkpoint in {folder / 'checkpoint'} stays", FAILED)
    except KeyboardInterrupt:
        typer.echo(f"stopped after {agent.num_timesteps} transitions; --resume {folder} goes on", err=True)
        raise
    if steps:
        agent.save_checkpoint(folder / "checkpoint")
    agent.save(folder / "policy.mfpo")
    with Progress().task("evaluation", episodes) as task:
        result = evaluate(agent, env, episodes, progress=task)
    agent.close()
    _show_curve(folder, env, quiet=as_json)
    summary = {
        "transitions": agent.num_timesteps,
        "return_mean": result.mean,
        "return_std": result.std,
        "episodes": result.n_episodes,
        "seconds": agent.seconds,
        "policy": str(folder / "policy.mfpo"),
    }
    emit(summary, as_json=as_json)


def _resume(folder: Path, env: str, device: str) -> Any:
    from rl_mfpo.agent import MFPO

    place = folder / "checkpoint" if (folder / "checkpoint").is_dir() else folder
    agent = MFPO.resume(place, device=device)
    if agent.env_id != env:
        raise InvalidInput.argument("env", expected=f"{agent.env_id}, on which the run was trained", got=env)
    return agent


def _show_curve(folder: Path, env: str, *, quiet: bool) -> None:
    from rl_mfpo.plots import curves, picture, text_plot

    if not (folder / "progress.csv").exists():
        return
    lines = curves(folder / "progress.csv")
    if not lines:
        return
    drawn = picture(lines, folder / "curve.png", f"{env}: return")
    if not quiet:
        typer.echo(text_plot(lines))
        if drawn:
            typer.echo(f"picture: {folder / 'curve.png'}")


@app.command(name="eval")
def evaluate_file(
    file: FileArgument,
    episodes: Annotated[int, typer.Option(min=1)] = 10,
    steps: Annotated[int | None, typer.Option(min=1, help="Network evaluations an action: 1, 2, 4.")] = None,
    candidates: Annotated[int | None, typer.Option(min=1, help="Actions of which the critics take the best.")] = None,
    stochastic: Annotated[bool, typer.Option("--stochastic", help="One sample an action.")] = False,
    env: Annotated[str | None, typer.Option(help="By default the one it was trained on.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the episodes.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Play episodes with a saved policy and print their returns."""
    from rl_mfpo.agent import MFPO
    from rl_mfpo.evaluation import evaluate

    agent = MFPO.load(file)
    world = env or agent.env_id
    if world is None:
        raise InvalidInput.argument("--env", expected="an environment's id (the file names none)", got="nothing")
    with Progress().task("evaluation", episodes) as task:
        result = evaluate(
            agent,
            world,
            episodes,
            deterministic=not stochastic,
            seed=seed,
            progress=task,
            steps=steps,
            n_candidates=candidates,
        )
    emit(result, as_json=as_json)


@app.command()
def export(
    file: FileArgument,
    out: Annotated[Path, typer.Option(help="Such as policy.onnx.")],
    format: Annotated[  # noqa: A002 - the word that everybody uses
        str | None, typer.Option(help="onnx or torch_export; by default by OUT's ending.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Network evaluations an action: 1, 2, 4.")] = None,
) -> None:
    """Write a saved policy for deployment: inputs observation and noise, output the environment's action."""
    from rl_mfpo.agent import MFPO

    chosen = format or ("torch_export" if out.suffix in {".pt2", ".pt"} else "onnx")
    agent = MFPO.load(file, device="cpu")
    with Progress().task(f"exporting as {chosen}"):
        agent.export(out, format=chosen, steps=steps)
    typer.echo(f"{out}: observation (n, {agent.spaces.obs_dim}), noise (n, {agent.spaces.scale.dim}) -> action")


@app.command()
def info(file: FileArgument, as_json: JsonOption = False) -> None:
    """Print what a saved policy, or the newest checkpoint of a folder, is."""
    from rl_mfpo.saving import describe

    emit(describe(file), as_json=as_json)


@app.command()
def bench(
    obs_dim: Annotated[int, typer.Option(min=1)] = 17,
    action_dim: Annotated[int, typer.Option(min=1)] = 6,
    preset: Annotated[str, typer.Option(help="paper, small or cpu.")] = "cpu",
    repeats: Annotated[int, typer.Option(min=1)] = 20,
    as_json: JsonOption = False,
) -> None:
    """Print what an action and an update cost on this machine (one observation, one thread; medians)."""
    from rl_mfpo.latency import measure

    emit(measure(obs_dim, action_dim, preset, repeats), as_json=as_json)


def main() -> None:
    """Run the command line."""
    app()
