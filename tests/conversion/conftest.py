"""Makes `hub_server` importable in the folders below."""
