//! Error codes: each is produced here, or has its test elsewhere.
