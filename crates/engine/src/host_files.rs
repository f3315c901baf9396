//! Answers what the rules ask about files, from the real file system.
