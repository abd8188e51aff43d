//! The decision which side gives its state to the other one.

use super::exchange::Direction;

#[test]
fn the_side_that_has_changed_gives_its_state() {
    let of = |here, there, exchanged: Option<[&'static str; 2]>| {
        Direction::of([here, there], exchanged.map_or([None; 2], |states| states.map(Some)))
    };
    assert_eq!(of("a", "a", None), Direction::Nothing);
    assert_eq!(of("a", "a", Some(["b", "b"])), Direction::Nothing);
    assert_eq!(of("a", "A", Some(["a", "A"])), Direction::Nothing, "git sees them in two ways");
    assert_eq!(of("b", "A", Some(["a", "A"])), Direction::There);
    assert_eq!(of("a", "B", Some(["a", "A"])), Direction::Here);
    assert_eq!(of("b", "B", Some(["a", "A"])), Direction::Conflict);
    assert_eq!(of("b", "c", None), Direction::Conflict);
}
