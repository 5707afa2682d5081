"""Commands on a Ray cluster."""

import argparse
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sightunseen.benchmark.runner import Execute
    from sightunseen.cluster.map_reduce import Cluster


def add_cluster_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option that runs a command on a cluster.

    Parameters
    ----------
    parser : argparse.ArgumentParser
        Parser to extend.
    """
    what = "run on a Ray cluster: ray (this machine), ray://HOST:PORT, or HOST:PORT on one of its nodes; see docs/cluster.md"
    parser.add_argument("--cluster", metavar="ADDRESS", help=what)


def connected(args: argparse.Namespace) -> "AbstractContextManager[Cluster | None]":
    """Connect to the cluster of ``--cluster``.

    Parameters
    ----------
    args : argparse.Namespace
        Parsed arguments.

    Returns
    -------
    context manager of Cluster or None
        The connection, which ends with the context; None without ``--cluster``.

    Raises
    ------
    SettingsError, MissingDependencyError, ClusterError
        If the address is not valid, Ray is not installed, or the cluster cannot be reached.
    """
    if args.cluster is None:
        return nullcontext()
    from sightunseen.cluster.map_reduce import Cluster

    return Cluster.connect(args.cluster)


def executing_on(cluster: "Cluster | None", jobs: int) -> "Execute | None":
    """Return what carries out the jobs of a plan on a cluster.

    Parameters
    ----------
    cluster : Cluster or None
        The cluster.
    jobs : int
        Number of jobs that run at the same time on a node.

    Returns
    -------
    callable or None
        Argument ``execute`` of :func:`~sightunseen.cli._jobs.run_jobs`; None without a cluster.
    """
    if cluster is None:
        return None
    from sightunseen.cluster.jobs import ClusterJobs

    return ClusterJobs(cluster, jobs)
