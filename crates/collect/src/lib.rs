//! Reads this host into the model.
