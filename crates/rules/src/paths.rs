//! Host path <-> sandbox path over the mount table.
