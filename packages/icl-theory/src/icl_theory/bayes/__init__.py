"""Task families whose Bayes predictor is known for every prefix of a prompt."""

from icl_theory.bayes.family import Family, Posterior, Prompts
from icl_theory.bayes.finite import FiniteTasks
from icl_theory.bayes.linear import LinearGaussian
from icl_theory.bayes.logistic import LogisticGaussian
from icl_theory.bayes.markov import MarkovDirichlet, MarkovPosterior
from icl_theory.bayes.mixture import Mixture
from icl_theory.bayes.patterns import PatternOutliers
from icl_theory.bayes.sparse import SparseLinear

__all__ = [
    "Family",
    "FiniteTasks",
    "LinearGaussian",
    "LogisticGaussian",
    "MarkovDirichlet",
    "MarkovPosterior",
    "Mixture",
    "PatternOutliers",
    "Posterior",
    "Prompts",
    "SparseLinear",
]
