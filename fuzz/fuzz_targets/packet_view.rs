#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| stillopen_lab::middlebox::fuzz::packet_view(data));
