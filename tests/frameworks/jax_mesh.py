# SPDX-License-Identifier: BSD-3-Clause
"""JAX: one global array over the devices of all processes, and initialize() without arguments."""
import jax
import jax.numpy as jnp
import numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from agree import agree

ROWS, STEPS, RATE = 12, 5, 0.1


def loss_of(weights, inputs, targets):
    return jnp.mean((jnp.tanh(inputs @ weights["in"]) @ weights["out"] - targets) ** 2)


@jax.jit
def step(weights, inputs, targets):
    loss, gradient = jax.value_and_grad(loss_of)(weights, inputs, targets)
    return jax.tree.map(lambda weight, slope: weight - RATE * slope, weights, gradient), loss


def train(inputs, targets):
    random = numpy.random.default_rng(1)
    weights = {"in": random.normal(size=(8, 16)).astype("f"), "out": random.normal(size=(16, 4)).astype("f")}
    for _ in range(STEPS):
        weights, loss = step(weights, inputs, targets)
    return {"loss": float(loss), "weights": numpy.concatenate([numpy.ravel(weight) for weight in weights.values()])}


jax.distributed.initialize()
rank, world = jax.process_index(), jax.process_count()
random = numpy.random.default_rng(2)
inputs, targets = random.normal(size=(ROWS, 8)).astype("f"), random.normal(size=(ROWS, 4)).astype("f")
mine = slice(rank * ROWS // world, (rank + 1) * ROWS // world)
rows = NamedSharding(Mesh(numpy.array(jax.devices()), "data"), PartitionSpec("data"))
together = train(*(jax.make_array_from_process_local_data(rows, whole[mine]) for whole in (inputs, targets)))
agree(rank, world, together, train(inputs, targets))
jax.distributed.shutdown()
