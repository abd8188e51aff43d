//! The decision which side gives its state to the other one.

use super::exchange::Direction;

#[test]
fn the_side_that_has_changed_gives_its_state() {
    let of = Direction::of;
    assert_eq!(of("a", None, None), Direction::Nothing);
    assert_eq!(of("a", Some("a"), None), Direction::Nothing);
    assert_eq!(of("a", Some("a"), Some("b")), Direction::Nothing);
    assert_eq!(of("b", Some("a"), Some("a")), Direction::There);
    assert_eq!(of("a", Some("b"), Some("a")), Direction::Here);
    assert_eq!(of("b", Some("c"), Some("a")), Direction::Conflict);
    assert_eq!(of("b", Some("c"), None), Direction::Conflict);
}
