# pyright: reportMissingImports=false
"""A `rospy` node for the tests, run by the system's Python: checks commands, answers poses.

Prints one JSON line: how many commands came, of which digest, and the last one (number 50).
"""

import json
import sys
import time

import genpy.dynamic
import rospy
from geometry_msgs.msg import PoseStamped

definition = sys.stdin.read()
Command = genpy.dynamic.generate_dynamic("agiros_msgs/Command", definition)["agiros_msgs/Command"]
got = []
rospy.init_node("peer", disable_signals=True)
answers = rospy.Publisher("/mocap/quad/pose", PoseStamped, queue_size=1)


def take(command):
    got.append(command)
    pose = PoseStamped()
    pose.header.stamp = rospy.Time.now()
    # rospy counts a header's number itself: which command is answered stands elsewhere.
    pose.pose.position.x = command.collective_thrust
    pose.pose.position.y = command.header.seq
    pose.pose.orientation.w = 1.0
    answers.publish(pose)


rospy.Subscriber("/quad/agiros_pilot/feedthrough_command", Command, take, queue_size=1)
LAST = 50
end = time.time() + 60.0
while not (got and got[-1].header.seq == LAST) and time.time() < end:
    time.sleep(0.02)
last = got[-1] if got else None
print(
    json.dumps(
        {
            "count": len(got),
            "digest": Command._md5sum,
            "thrust": last and last.collective_thrust,
            "rates": last and [last.bodyrates.x, last.bodyrates.y, last.bodyrates.z],
            "single": last and bool(last.is_single_rotor_thrust),
        }
    )
)
