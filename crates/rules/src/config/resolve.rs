//! Turns the config as written into the effective config of one agent: built-in < defaults < agent.
