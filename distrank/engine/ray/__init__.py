"""The Ray engine: the only folder that imports ray.

environment   what must be set before Ray starts: nothing phones home, tokens on, dashboards on loopback
placement     shards and local state as task results, rounds as tasks, waits with a stall guard
gauges        progress for Prometheus
waiting       results in order, or an error that says what no node does
submission    jobs on the job server of a cluster, believed only if they say SUCCEEDED
engine        the parameter actor that runs the loop, and the driver that asks it for progress
"""
