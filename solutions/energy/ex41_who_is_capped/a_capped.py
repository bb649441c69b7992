"""Detective energy-ex41: which training is capped?

captures/h200/energy_lm/record.power.json.xz logs what a GPU drew while language models of several
sizes trained; record.json beside it (results, windows) says what each window did.
"""

from labcode.grading.sheet import Answers, Misreading, Number, Word

QUESTIONS = (
    Word(
        "capped",
        "which of these trainings ran into the power cap",
        words=("small bf16", "medium tf32", "xl bf16", "2.7B bf16"),
    ),
    Number("clock_mhz", "its clock", unit="MHz", within=0.002),
    Number("watts", "the power of train medium bf16", unit="W", within=0.03),
    Number("mj_a_token", "train medium bf16: energy for a token", unit="mJ", within=0.03),
    Number("saved", "train medium: energy for a token in fp32, over that in bf16", within=0.04),
)


def answers() -> Answers:
    """The right answers, from the capture."""
    from labcode.analysis.energy.repeated import repeated
    from labcode.grading import opened

    table = repeated(
        opened.record("h200", "energy_lm", "record"), opened.power("h200", "energy_lm", "record")
    )
    each = table["energy_j"] / table["tokens"].astype(float)
    slowed = [str(name) for name in table.index if str(name).startswith("train ") and table["slowed"][name]]
    capped = slowed[-1]
    bf16, fp32 = "train medium bf16", "train medium fp32"
    idle = table["idle_w"] * table["seconds"]
    most = table["watts"][[n for n in table.index if str(n).startswith("train ")]]
    return Answers(
        {
            "capped": capped.removeprefix("train "),
            "clock_mhz": float(table["sm_mhz"][capped]),
            "watts": float(table["watts"][bf16]),
            "mj_a_token": 1e3 * each[bf16],
            "saved": each[fp32] / each[bf16],
        },
        [
            Misreading("it draws much, but its clock is the highest there is", {"capped": "medium tf32"}),
            Misreading("it draws much, but its clock is the highest there is", {"capped": "xl bf16"}),
            Misreading("it is far from the limit", {"capped": "small bf16"}),
            Misreading(
                "that is the clock of those that are not capped; or else: its own highest, not the median",
                {"clock_mhz": float(table["sm_mhz"].max())},
            ),
            Misreading("that is in fp32", {"mj_a_token": 1e3 * each[fp32]}),
            Misreading("that is the most of all trainings", {"watts": float(most.max())}),
            Misreading(
                "that is for a step, of 2,048 tokens", {"mj_a_token": 1e3 * float(table["each_j"][bf16])}
            ),
            Misreading(
                "that leaves out what the GPU draws idle; all of it is paid for",
                {"mj_a_token": 1e3 * float((table["energy_j"] - idle)[bf16] / float(table["tokens"][bf16]))},
            ),
            Misreading("the other way round", {"saved": each[bf16] / each[fp32]}),
            Misreading(
                "that is the ratio of powers: energy is power times time",
                {"saved": float(table["watts"][fp32] / table["watts"][bf16])},
            ),
        ],
        ["bf16 draws a little less than fp32, for a fraction of the time"],
    )
