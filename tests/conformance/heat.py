"""A rod that cools: each rank has a part of it in numpy arrays, exchanges its ends, and all add up what is left."""

import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
steps, cells = int(sys.argv[1]), 20000
heat = np.random.default_rng(rank).random(cells + 2)
left = rank - 1 if rank > 0 else MPI.PROC_NULL
right = rank + 1 if rank + 1 < size else MPI.PROC_NULL
total = np.empty(1)
for step in range(1, steps + 1):
    comm.Sendrecv(heat[1:2], left, 1, heat[-1:], right, 1)
    comm.Sendrecv(heat[-2:-1], right, 2, heat[:1], left, 2)
    new = heat.copy()
    new[1:-1] += 0.25 * (heat[:-2] - 2 * heat[1:-1] + heat[2:])
    heat = new
    comm.Allreduce(np.array([np.square(heat[1:-1]).sum()]), total)
    if step % 50 == 0:
        # A pickled object, from all to the first.
        parts = comm.gather({"rank": rank, "sum": float(heat[1:-1].sum())})
        if rank == 0:
            sums = " ".join(f"{part['sum']:.12e}" for part in parts)
            print(f"result {step} {total[0]:.15e} {sums}", flush=True)
