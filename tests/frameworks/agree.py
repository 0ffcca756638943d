# SPDX-License-Identifier: BSD-3-Clause
"""Whether a rank's numbers are those that one process gets; the tests count what it prints (helper.bash)."""
import sys


def agree(rank, world, together, alone, relative=1e-5):
    """Each is name -> number or sequence of numbers; they may differ by `relative` of the sequence's largest.

    rank and world are those that the framework itself believes in."""
    assert together.keys() == alone.keys(), (together.keys(), alone.keys())
    for name in alone:
        got, want = ([float(x) for x in (values if hasattr(values, "__iter__") else [values])]
                     for values in (together[name], alone[name]))
        assert len(got) == len(want) > 0, f"rank {rank} of {world}: {name}: {len(got)} numbers, alone {len(want)}"
        bound = relative * max(map(abs, want))
        far = [(i, a, b) for i, (a, b) in enumerate(zip(got, want)) if not abs(a - b) <= bound]
        assert not far, f"rank {rank} of {world}: {name}[{far[0][0]}] is {far[0][1]!r}, alone {far[0][2]!r}"
    # In one write: ranks of a launcher share one pipe.
    sys.stdout.write(f"rank {rank} of {world}: agrees\n")
    sys.stdout.flush()
