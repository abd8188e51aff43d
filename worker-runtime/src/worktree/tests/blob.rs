//! Git's ids of file content, without a process for each file.

/// Returns the id of a blob with this content.
pub(super) fn id_of(content: &[u8]) -> String {
    let text = [format!("blob {}\0", content.len()).as_bytes(), content].concat();
    sha1(&text).iter().map(|word| format!("{word:08x}")).collect()
}

fn sha1(text: &[u8]) -> [u32; 5] {
    let mut padded = text.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend_from_slice(&(text.len() as u64 * 8).to_be_bytes());
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476, 0xc3d2_e1f0];
    for block in padded.chunks_exact(64) {
        let word = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
        let mut words: Vec<u32> = block.chunks_exact(4).map(word).collect();
        for at in 16..80 {
            words.push((words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16]).rotate_left(1));
        }
        let [mut a, mut b, mut c, mut d, mut e] = state;
        for (round, word) in words.into_iter().enumerate() {
            let (mixed, constant) = match round / 20 {
                0 => ((b & c) | (!b & d), 0x5a82_7999),
                1 => (b ^ c ^ d, 0x6ed9_eba1),
                2 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
                _ => (b ^ c ^ d, 0xca62_c1d6_u32),
            };
            let sum = [mixed, e, constant, word].into_iter().fold(a.rotate_left(5), u32::wrapping_add);
            (a, b, c, d, e) = (sum, a, b.rotate_left(30), c, d);
        }
        for (sum, word) in state.iter_mut().zip([a, b, c, d, e]) {
            *sum = sum.wrapping_add(word);
        }
    }
    state
}

#[test]
fn the_ids_are_those_of_git() {
    let known = [
        (0, "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"),
        (51, "614844b774ea390a1757d5fb3fe383d3bf2e0065"),
        (1000, "a50be72b20f0e3f078d252e8e56b11b4bec67509"),
    ];
    for (length, id) in known {
        assert_eq!(id_of(&vec![b'a'; length]), id, "{length}");
    }
}
