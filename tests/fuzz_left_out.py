"""Public names that stand behind no door of `test_fuzz.py`, and why."""

from __future__ import annotations

_RESULT = "a result: the package makes it, callers read it"
_EXCEPTION = "an exception or a warning"
_BASE = "an abstract base: its subclasses have doors"
_CLUSTER = "needs processes that talk to each other; tried by the package's own tests"

LEFT_OUT: dict[str, dict[str, str]] = {
    "core": {
        **dict.fromkeys(("InvalidInput", "NotConvergedWarning"), _EXCEPTION),
        **dict.fromkeys(("Claim", "Context", "Evidence", "Package", "Series", "Table", "Verdict"), _RESULT),
        **dict.fromkeys(("Outcome", "Scale"), "an enumeration"),
        "discover": "takes no argument",
    },
    "cg_tensorproduct": {
        "InvalidInput": _EXCEPTION,
        **dict.fromkeys(("AutotuneReport", "ReplaceReport", "SignalOutput"), _RESULT),
    },
    "icl_theory": {
        **dict.fromkeys(
            ("Coverage", "Estimate", "MixtureStudy", "Parts", "Posterior", "PromptBatch", "RiskReport", "TrainResult"),
            _RESULT,
        ),
        **dict.fromkeys(
            (
                "bayes.MarkovPosterior",
                "bayes.Posterior",
                "bayes.Prompts",
                "bounds.Collision",
                "bounds.Drift",
                "theory.Condition",
            ),
            _RESULT,
        ),
        "Prompts": "a record of arrays; what takes one has a door",
        "collision_example": "takes no argument",
        "bounds.collision_example": "takes no argument",
        "bayes.Family": _BASE,
    },
    "lap_warmstart": {
        **dict.fromkeys(("Certificate", "SolveStats"), _RESULT),
        "Infeasible": _EXCEPTION,
    },
    "oco_anytime": {
        **dict.fromkeys(("Certificate", "Hindsight"), _RESULT),
        **dict.fromkeys(("baselines.HorizonExceeded", "domains.ProjectionFailed"), _EXCEPTION),
        **dict.fromkeys(("environments.Environment", "hints.HintSource"), _BASE),
        "environments.PortfolioRisk": "its prices come from a data set that takes seconds to read",
    },
    "optim_bas": {
        "StateBytes": _RESULT,
        **dict.fromkeys(("SignExchange", "local_gradients"), _CLUSTER),
    },
    "optim_rmnp": dict.fromkeys(("Dominance", "MatrixRecord", "ParamRow", "ParamTable", "StepRecord"), _RESULT),
    "qubo_relax": {
        **dict.fromkeys(("Certificate", "PointCertificate", "Repaired", "Result", "Weights"), _RESULT),
        "NotCertifiable": _EXCEPTION,
    },
    "riemann_fair": dict.fromkeys(
        (
            *("AssignmentResult", "ConstraintInfo", "EmbeddingResult", "FairnessReport", "GraphDataset"),
            *("PathResult", "SBMResult"),
        ),
        _RESULT,
    ),
    "rl_mfpo": {
        **dict.fromkeys(("Batch", "EvaluationResult", "ResumeReport", "functional.VelocityEstimate"), _RESULT),
        **dict.fromkeys(("EnvironmentFault", "HealthWarning", "TrainingDiverged"), _EXCEPTION),
        "Callback": _BASE,
        **dict.fromkeys(("CSVLogger", "TensorBoardLogger"), "writes files where it is told; takes a path only"),
        **dict.fromkeys(
            (
                *("distributed.session", "distributed.make", "distributed.resume", "distributed.distribute"),
                *("distributed.distribute_learner", "distributed.average_gradients", "distributed.average"),
                "distributed.any_rank",
            ),
            _CLUSTER,
        ),
    },
}
