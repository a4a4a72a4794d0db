"""What is to be recorded of an action, why, and how deep: policy, classes, escalation."""
