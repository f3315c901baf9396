//! Tells that a running sandbox is out of date: one hash over everything that shaped it.
