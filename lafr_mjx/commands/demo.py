"""`lafr-mjx demo`: the main job, and pictures of it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from lafr_mjx.commands.adapt import Adapt
from lafr_mjx.commands.view import View
from lafr_mjx.errors import InputError, RunError


@dataclass
class Demo:
    """Adapt on the figure-8 in 5 m/s of wind, by planned references, then make a video: 5 minutes.

    lafr-mjx demo
    """

    out: Path | None = None
    """Run folder; by default a new one, runs/demo-DATE-TIME."""
    iterations: int = 12
    """Flights, each followed by learning."""

    def run(self) -> None:
        """Fly, learn, render; a machine that cannot render still has its run."""
        folder = self.out or Path("runs") / time.strftime("demo-%Y%m%d-%H%M%S")
        print("Flights with learning after each, then a video: about 5 minutes on two cores.")
        Adapt(
            "figure8", "wind5", reference="space-time", iterations=self.iterations, out=folder
        ).run()
        video, strobe = folder / "video.mp4", folder / "strobe.png"
        try:
            View(folder, video=video, strobe=strobe).run()
        except (InputError, RunError) as error:
            print(
                f"{error}\nThe run is complete, without pictures. When what is named is there:\n"
                f"lafr-mjx view {folder} --video {video} --strobe {strobe}"
            )
            return
        print(f"Watch the video {video} and look at {strobe}")
