"""What operators use: the doctor and the ACL roles."""
