//! Which sandboxes are too idle or too old.
