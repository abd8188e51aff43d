//! Property tests of a damaged `--input`: no panic, no hang, bounded memory.

use std::fs;

use subagent_protocol::Code;
use subagent_testkit::{bytes, in_own_process};

use super::InputObject;
use crate::command_line::TypedFlags;
use crate::commands::send::INPUT as SEND;

#[test]
fn any_input_gives_an_object_or_a_refusal() {
    in_own_process(|| {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("input.json");
        let corpus: Vec<Vec<u8>> = vec![bytes::INPUT.to_vec(), b"{\"text\":\"a\",\"blocks\":[]}".to_vec()];
        let none = TypedFlags::default();
        bytes::attack(&corpus, |bad| {
            fs::write(&file, bad).unwrap();
            if let Err(failure) = InputObject::load(Some(&file), SEND, &none) {
                assert!(failure.is(Code::InvalidInput), "{failure}");
            }
        });
    });
}
