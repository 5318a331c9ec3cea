"""A stack's configuration: the files Pulumi.<stack>.yaml, and what reads and checks them."""
