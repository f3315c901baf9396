//! What a pen sees of the host, by table.
