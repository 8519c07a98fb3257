"""ROS 1 on the wire, without ROS: messages, topics, master."""
