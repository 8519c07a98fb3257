"""The software drone: a pilot as strict as a real one, on the plant, behind the same wire.

It shares nothing with the rest of `hil` but the message definitions; a test reads its imports.
"""
