"""Tests that go on for as long as one likes; `tools/campaign` runs them."""
