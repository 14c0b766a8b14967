"""What a corpus of any size would cost, from constants that were measured on small ones; prints the table of docs/scale.md.

python benchmarks/scale_on_paper.py
python benchmarks/scale_on_paper.py --tokens 1e8 --features 2e7 --machines 4 --cores 16
"""

import argparse
from dataclasses import dataclass, fields


@dataclass(frozen=True)
class Size:
    """A problem and the machines for it.

    Constants: bytes per token of a corpus (``encoded``) and of a fit's packed parts beside it; CPU seconds per token of an
    evaluation and of a stochastic epoch (``walk``); bytes per weight of theta, gradients and L-BFGS (``held``); CPU seconds
    per weight of an L-BFGS step on the driver and of exchanging a weight with a worker.
    """

    tokens: float = 1e9
    features: float = 1e8
    weights_per_feature: float = 1.35
    machines: float = 8
    cores: float = 16
    evaluations: float = 115
    encoded: float = 160.0
    packed: float = 270.0
    evaluation: float = 4e-7
    walk: float = 5.5e-7
    held: float = 150.0
    step: float = 6e-8
    exchange: float = 7e-8
    own_share: float = 0.22
    disk_gigabytes_a_second: float = 2.0
    name_bytes: float = 78.0

    @property
    def weights(self) -> float:
        return self.features * self.weights_per_feature

    def rows(self) -> list[tuple[str, str]]:
        """Name and value of each line of the table."""
        core_seconds = self.tokens * self.evaluation
        reading = self.tokens * self.packed / 1e9 / self.disk_gigabytes_a_second
        alone = max(core_seconds / self.cores, reading)
        shared = max(core_seconds / self.cores, reading) / self.machines
        # each part sends and receives its own weights: a share of all of them per machine
        network = 2 * 8 * self.weights * self.own_share * self.machines / 1e9
        driver = self.weights * self.step + self.weights * self.own_share * self.machines * self.exchange
        lonely = alone + self.weights * self.step
        return [
            ("corpus on disk", f"{self.tokens * self.encoded / 1e9:.3g} GB"),
            ("packed parts during a fit", f"{self.tokens * self.packed / 1e9:.3g} GB"),
            ("weights", f"{self.weights / 1e6:.3g} million"),
            ("memory of the driver: theta, gradients, history", f"{self.weights * self.held / 1e9:.3g} GB"),
            ("names of features", f"{self.features * self.name_bytes / 1e9:.3g} GB"),
            ("one evaluation, core seconds", f"{core_seconds:.3g} s"),
            (f"one evaluation, one machine of {self.cores:.0f} cores", f"{alone:.3g} s"),
            (f"one evaluation, {self.machines:.0f} machines, without the driver", f"{shared:.3g} s"),
            ("network per evaluation", f"{network:.3g} GB"),
            ("driver per step, one core", f"{driver:.3g} s"),
            (f"L-BFGS, {self.evaluations:.0f} evaluations, one machine", f"{self.evaluations * lonely / 3600:.3g} h"),
            (f"L-BFGS, {self.machines:.0f} machines", f"{self.evaluations * (shared + driver) / 3600:.3g} h"),
            ("ten stochastic epochs, one core", f"{10 * max(self.tokens * self.walk, reading) / 3600:.3g} h"),
        ]  # fmt: skip


SIZES = {
    "CoNLL-2000": Size(2.1e5, 3.4e5, machines=1, cores=2),
    "5 million tokens": Size(4.7e6, 4.2e6, 1.02, machines=2, cores=4),
    "10^8 tokens": Size(1e8, 2e7, machines=4),
    "10^9 tokens": Size(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for field in fields(Size):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type=float)
    given = {name: value for name, value in vars(parser.parse_args()).items() if value is not None}
    sizes = {"as given": Size(**given)} if given else SIZES
    tables = [{_general(name): value for name, value in size.rows()} for size in sizes.values()]
    print("| | " + " | ".join(sizes) + " |")
    print("| --- |" + " --- |" * len(sizes))
    for name in tables[0]:
        print(f"| {name} | " + " | ".join(table[name] for table in tables) + " |")


def _general(name: str) -> str:
    """Name of a line without the numbers of one size."""
    words = name.split(", ")
    if words[0] == "one evaluation" and "machine" in words[1]:
        return (
            "one evaluation, one machine"
            if words[1].startswith("one")
            else "one evaluation, all machines, without the driver"
        )
    if words[0] == "L-BFGS":
        return "L-BFGS, one machine" if name.endswith("one machine") else "L-BFGS, all machines"
    return name


if __name__ == "__main__":
    main()
