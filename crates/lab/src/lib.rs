//! The incident in a laboratory: something on the way that forgets connections, ends that behave as Linux
//! does, and scenario files that say what happens and what must come of it.
//!
//! Read first: `middlebox/mod.rs`, then `sim/mod.rs`, then `scenario.rs`.

pub mod middlebox;
