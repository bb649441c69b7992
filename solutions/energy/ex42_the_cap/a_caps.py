"""Detective energy-ex42: what the cap takes.

captures/h200/energy_matmul/record.power.json.xz: products of 8192 × 8192 matrices in windows such
as "bf16 random", "bf16 zeros", "fp8 random". record.json beside it has each window's FLOP.
"""

from labcode.grading.sheet import Answers, Misreading, Name, Names, Number, Word

QUESTIONS = (
    Name("lowest", "the window with the lowest clock"),
    Number("zeros_mhz", "the clock of bf16 zeros", unit="MHz", within=0.005),
    Number("less_power", "watts of bf16 random over those of bf16 zeros", within=0.04),
    Number("pj_a_flop", "bf16 random: energy for a FLOP", unit="pJ", within=0.03),
    Word(
        "why",
        "why zeros draw less",
        words=("fewer bits change", "fewer products are made", "less memory is read", "the clock is lower"),
    ),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.analysis.energy.repeated import repeated
    from labcode.grading import opened

    log = opened.power("h200", "energy_matmul", "record")
    table = repeated(opened.record("h200", "energy_matmul", "record"), log)
    lowest = str(table["sm_mhz"].idxmin())
    flop = table["flop"].astype(float)
    random, zeros = "bf16 random", "bf16 zeros"
    energy = float(table["each_j"][random] / table["each_j"][zeros])
    return Answers(
        {
            "lowest": Names(lowest, tuple(map(str, table.index))),
            "zeros_mhz": float(table["sm_mhz"][zeros]),
            "less_power": float(table["watts"][random] / table["watts"][zeros]),
            "pj_a_flop": float(1e12 * table["energy_j"][random] / flop[random]),
            "why": "fewer bits change",
        },
        [
            *(
                Misreading(
                    f"its clock is {table['sm_mhz'][name]:.0f} MHz; there is a lower one",
                    {"lowest": str(name)},
                )
                for name in table.index
                if name not in (lowest, "fp32 random")
            ),
            Misreading(
                "that one has the highest clock: it is slow, and draws as much", {"lowest": "fp32 random"}
            ),
            Misreading("that is fp32 random, the highest", {"zeros_mhz": float(table["sm_mhz"].max())}),
            Misreading("that is bf16 random", {"zeros_mhz": float(table["sm_mhz"][random])}),
            Misreading(
                "that is bf16 constant; or else: the lowest sample of zeros, not the median",
                {"zeros_mhz": float(table["sm_mhz"]["bf16 constant"])},
            ),
            Misreading(
                f"a product takes {energy:.2f} times the energy; watts are asked for", {"less_power": energy}
            ),
            Misreading(
                "the other way round", {"less_power": float(table["watts"][zeros] / table["watts"][random])}
            ),
            Misreading(
                "that is FLOP for a pJ", {"pj_a_flop": float(flop[random] / table["energy_j"][random] / 1e12)}
            ),
            Misreading(
                "that is bf16 zeros", {"pj_a_flop": float(1e12 * table["energy_j"][zeros] / flop[zeros])}
            ),
            Misreading("each product is made, whatever its factors", {"why": "fewer products are made"}),
            Misreading("a product of zeros reads as many bytes", {"why": "less memory is read"}),
            Misreading("with zeros it is higher", {"why": "the clock is lower"}),
        ],
        ["time a product of random numbers, if random numbers are what the program will multiply"],
    )
