//! Every built-in value, with its reason.
