"""A log of your own, beside a run's own record: its laps, in a file of your own form."""

from dataclasses import dataclass

import lafr_mjx as lm


@dataclass
class Laps:
    """Its fields are its parameters."""

    digits: int = 2

    def start(self, folder, config):
        self.file = (folder / "laps.txt").open("w")  # anew, also in a run that goes on

    def iteration(self, number, record, flight):
        print(number, round(record["lap_time_s"], self.digits), file=self.file, flush=True)

    def close(self):
        self.file.close()


if __name__ == "__main__":
    run = lm.adapt("figure8", log=["csv", Laps(digits=3)], iterations=12, out="runs/logged")
    print((run.path / "laps.txt").read_text())
