# pyright: reportOptionalMemberAccess=false, reportCallIssue=false, reportArgumentType=false
# pyright: reportOptionalSubscript=false, reportIndexIssue=false
"""A rosbridge for the tests: a websocket server that speaks the rosbridge v2 protocol.

Run as a process: `python bridge_peer.py MASTER-URI QUAD`; prints its address. On the other side
it is a ROS node, so that the software drone stands behind it. It knows the topics of one drone.
It shares no conversion of messages with the client. Lines on standard input make it misbehave:
`mute` (answers nothing), `deaf` (reads nothing), `speak` (well again), `drop` (closes all
connections), `raw TEXT` (sends TEXT to all), `binary` (sends bytes), `flood TOPIC N`.
"""

import asyncio
import contextlib
import dataclasses
import json
import math
import os
import sys

import numpy as np
import websockets

from lafr_mjx.hil import messages as m
from lafr_mjx.hil import rpc
from lafr_mjx.hil.node import Node

NAME = "/rosbridge_websocket"
FROM_PILOT = {
    "state": "agiros_msgs/QuadState",
    "telemetry": "agiros_msgs/Telemetry",
    "mpc_command": "agiros_msgs/Command",
}
TO_PILOT = {
    "feedthrough_command": "agiros_msgs/Command",
    "enable": "std_msgs/Bool",
    **dict.fromkeys(("start", "land", "off", "force_hover", "trigger_guard"), "std_msgs/Empty"),
}


def plain(value):
    """A message of `rosbags` as what JSON can hold."""
    if dataclasses.is_dataclass(value):
        fields = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        if fields.keys() >= {"sec", "nanosec"}:
            return {"secs": fields["sec"], "nsecs": fields["nanosec"]}
        # Constants of the definition are no fields.
        return {k: v for k, v in fields.items() if not k.startswith("__") and not k.isupper()}
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value


def command(msg):
    stamp = msg["header"]["stamp"]
    rates = msg["bodyrates"]
    return m.message_class("agiros_msgs/Command")(
        m.header(stamp["secs"] + 1e-9 * stamp["nsecs"], msg["header"]["seq"]), msg["t"],
        msg["is_single_rotor_thrust"], msg["collective_thrust"],
        m.vector([rates["x"], rates["y"], rates["z"]]), np.array(msg["thrusts"], float),
    )  # fmt: skip


class Peer:
    def __init__(self, master, quad):
        pilot = f"/{quad}/agiros_pilot/"
        self.node = Node(NAME, master)
        self.master = master
        self.out = {pilot + n: self.node.advertise(pilot + n, k) for n, k in TO_PILOT.items()}
        self.kinds = {pilot + n: k for n, k in FROM_PILOT.items()}
        self.kinds[f"/mocap/{quad}/pose"] = "geometry_msgs/PoseStamped"
        self.kinds[f"/{quad}/mavros/battery"] = "sensor_msgs/BatteryState"
        self.incoming = {t: self.node.subscribe(t, k) for t, k in self.kinds.items()}
        self.clients = {}  # socket: topics that it subscribes to, and what it advertises
        self.mute = self.deaf = False
        self.node.start()

    async def serve(self, websocket):
        subscribed, advertised = set(), {}
        self.clients[websocket] = (subscribed, advertised)
        try:
            async for text in websocket:
                while self.deaf:
                    await asyncio.sleep(0.05)
                await self.handle(websocket, json.loads(text), subscribed, advertised)
        except websockets.ConnectionClosed:
            pass
        finally:
            del self.clients[websocket]

    async def handle(self, websocket, message, subscribed, advertised):
        op, topic = message["op"], message.get("topic")
        if op == "advertise":
            advertised[topic] = message["type"]
        elif op == "subscribe":
            assert message["queue_length"] == 1 and message["type"] == self.kinds[topic]
            subscribed.add(topic)
        elif op == "publish":
            if topic not in advertised:
                return
            kind, msg = advertised[topic], message["msg"]
            if kind == "agiros_msgs/Command":
                made = command(msg)
            elif kind == "std_msgs/Bool":
                made = m.boolean(msg["data"])
            else:
                assert msg == {}
                made = m.empty()
            self.out[topic].publish(m.encode(kind, made))
        elif op == "call_service" and not self.mute:
            values = await asyncio.to_thread(self.rosapi, message["service"], message["args"])
            answer = {
                "op": "service_response", "id": message["id"], "service": message["service"],
                "values": values, "result": values is not None,
            }  # fmt: skip
            await websocket.send(json.dumps(answer))

    def rosapi(self, service, args):
        topic = args["topic"]
        publishing, subscribing, _ = rpc.call(self.master, "getSystemState", NAME)
        if service == "/rosapi/publishers":
            nodes = set(dict(publishing).get(topic, []))
            theirs = any(topic in advertised for _, advertised in self.clients.values())
            return {"publishers": sorted(nodes | ({NAME} if theirs else set()))}
        if service == "/rosapi/subscribers":
            return {"subscribers": sorted(set(dict(subscribing).get(topic, [])))}
        if service == "/rosapi/topic_type":
            return {"type": self.kinds.get(topic, "")}
        return None

    async def pump(self):
        """The newest message of each topic to whoever asked for it."""
        seen = dict.fromkeys(self.kinds, -1)
        while True:
            await asyncio.sleep(0.002)
            for topic, subscriber in self.incoming.items():
                latest = subscriber.latest
                if latest is None or latest.number == seen[topic] or self.mute:
                    continue
                seen[topic] = latest.number
                text = json.dumps({"op": "publish", "topic": topic, "msg": plain(latest.message)})
                listening = [w for w, (topics, _) in self.clients.items() if topic in topics]
                websockets.broadcast(listening, text)

    async def obey(self):
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
        )
        while line := (await reader.readline()).decode().strip():
            word, _, rest = line.partition(" ")
            clients = list(self.clients)
            if word in ("mute", "deaf", "speak"):
                self.mute, self.deaf = word == "mute", word == "deaf"
            elif word == "drop":
                for client in clients:
                    client.transport.abort()
            elif word == "raw":
                websockets.broadcast(clients, rest)
            elif word == "binary":
                websockets.broadcast(clients, b"\x00\xff" * 50)
            elif word == "flood":
                topic, count = rest.split()
                await self.flood(clients, topic, int(count))

    async def flood(self, clients, topic, count):
        message = plain(self.incoming[topic].latest.message)
        message["header"]["stamp"]["nsecs"] = "NUMBER"
        text = json.dumps({"op": "publish", "topic": topic, "msg": message})
        start = asyncio.get_running_loop().time()
        sent = 0
        while sent < count:
            due = min(count, int((asyncio.get_running_loop().time() - start) * 10_000))
            for number in range(sent + 1, due + 1):
                websockets.broadcast(clients, text.replace('"NUMBER"', str(number * 1000)))
            sent = max(sent, due)
            await asyncio.sleep(0.001)


async def main():
    with contextlib.suppress(OSError):  # as punctual as the drone behind it
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(5))
    peer = Peer(sys.argv[1], sys.argv[2])
    async with websockets.serve(peer.serve, "127.0.0.1", 0, compression=None) as server:
        port = server.sockets[0].getsockname()[1]
        print(f"ws://127.0.0.1:{port}", flush=True)
        pumping = asyncio.ensure_future(peer.pump())
        await peer.obey()
        pumping.cancel()
    peer.node.close()


if __name__ == "__main__":
    asyncio.run(main())
