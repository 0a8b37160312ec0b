"""A pool of futures: the first rank hands out tasks, which the others compute in processes of the same job."""

import sys

import numpy as np
from mpi4py import MPI
from mpi4py.futures import MPICommExecutor


def power(task):
    """The largest eigenvalue of a random symmetric matrix, by the power method."""
    matrix = np.random.default_rng(task).random((60, 60))
    matrix += matrix.T
    vector = np.ones(60)
    for _ in range(60):
        vector = matrix @ vector
        vector /= np.linalg.norm(vector)
    return float(vector @ matrix @ vector)


with MPICommExecutor(MPI.COMM_WORLD, root=0) as executor:
    if executor is not None:
        for round in range(1, int(sys.argv[1]) + 1):
            tasks = range(20 * round, 20 * round + 20)
            values = list(executor.map(power, tasks))
            print(f"result {round} {sum(values):.12e}", flush=True)
