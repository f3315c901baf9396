//! The ordinary user whose pens are attacked.

pub(crate) use clawpen_tests::user::User;
