//! The `nf_tables` rules of one network namespace (those of `iptables-nft` too): which destinations they
//! translate, and whether they drop what connection tracking calls INVALID or NEW.

pub(crate) mod expression;
pub(crate) mod parse;
pub(crate) mod read;
pub(crate) mod rules;

pub(crate) use rules::Rules;

#[cfg(test)]
mod tests;
