//! The user's file and its folder, replaced in all ways: the daemon follows, and removes nothing
//! by mistake.

use std::os::unix::fs::symlink;

use super::*;

#[test]
fn a_link_that_gets_another_target_and_the_target_are_noticed() {
    let sandbox = world();
    let file = sandbox.file("home/.config/subagent/config.yaml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    // The entries of a file in the folder of dotfiles, and the link to it.
    let target = |name: &str, text: &str| {
        let target = sandbox.file("dotfiles").join(name).join("config.yaml");
        write_to(&sandbox, &target, text);
        target
    };
    let link = |target: &PathBuf| {
        let new = file.with_extension("new");
        symlink(target, &new).unwrap();
        fs::rename(new, &file).unwrap();
    };
    let one = target("a", "schedules:\n  one: {every: 20m, WS, text: x}\n");
    let none = target("b", "schedules: {}\n");
    let tick = target("c", "schedules:\n  tick: {every: 1s, WS, text: '!say done'}\n");
    link(&one);
    assert_eq!(names(&list(&sandbox, "schedule")), ["one"]);
    assert_eq!(show(&sandbox, "one")["declaredIn"], json!(file));
    link(&none);
    wait_for_names(&sandbox, "schedule", &[]);
    // No command asks for schedules here: the daemon notices the change by itself.
    let text = fs::read_to_string(tick).unwrap();
    fs::write(&none, text).unwrap();
    wait_until("a task of the schedule", SOON, || {
        (sandbox.run(&["task", "list", "--all"]).data()["count"].as_u64() > Some(0)).then_some(())
    });
    link(&one);
    wait_for_names(&sandbox, "schedule", &["one"]);
    sandbox.finish();
}

#[test]
fn another_folder_in_the_place_of_that_of_the_file_is_noticed() {
    let sandbox = world();
    write(&sandbox, "schedules: {}\n");
    assert_eq!(list(&sandbox, "schedule")["count"], 0);
    let config = sandbox.file("home/.config");
    let count = || sandbox.run(&["task", "list", "--all"]).data()["count"].as_u64().unwrap();
    for (number, folder) in [config.join("subagent"), config].iter().enumerate() {
        let before = count();
        fs::rename(folder, folder.with_extension("old")).unwrap();
        // No command asks for schedules here: the daemon notices the file by itself.
        write(&sandbox, &format!("schedules:\n  tick{number}: {{every: 1s, WS, text: '!say done'}}\n"));
        wait_until("a task of the schedule", SOON, || (count() > before).then_some(()));
        sandbox.run(&["schedule", "pause", &format!("tick{number}")]).data_of("schedule.paused");
    }
    sandbox.finish();
}

#[test]
fn a_missing_or_unreachable_file_removes_nothing() {
    let sandbox = world();
    let text = "schedules:\n  one: {every: 20m, WS, text: x}\ntriggers:\n  two: {WS, text: x}\n";
    write(&sandbox, text);
    assert_eq!(names(&list(&sandbox, "schedule")), ["one"]);
    let file = user_file(&sandbox);
    let stays = |says: &str| {
        let _ = list(&sandbox, "schedule");
        after_a_removal();
        for (kind, name) in [("schedule", "one"), ("trigger", "two")] {
            let listed = list(&sandbox, kind);
            assert_eq!(names(&listed), [name], "{listed}");
            let found = problems(&listed);
            assert!(found.len() == 1 && found[0].1.contains(says), "{says}: {found:?}");
        }
    };
    fs::write(&file, "").unwrap();
    stays("is missing or empty, and 2 schedules and triggers");
    fs::remove_file(&file).unwrap();
    symlink(&file, &file).unwrap();
    stays("is unreachable");
    sandbox.run(&["schedule", "rm", "one"]).error("INVALID_ARGUMENT");
    fs::remove_file(&file).unwrap();
    stays("is missing or empty, and 2 schedules and triggers");
    sandbox.run(&["daemon", "stop"]).data_of("daemon.stopped");
    stays("is missing or empty, and 2 schedules and triggers");
    // Without the file, the command removes it.
    sandbox.run(&["schedule", "rm", "one"]).data_of("schedule.removed");
    sandbox.run(&["trigger", "rm", "two"]).data_of("trigger.removed");
    let listed = list(&sandbox, "schedule");
    assert_eq!((names(&listed), problems(&listed)), (vec![], vec![]), "{listed}");
    sandbox.finish();
}
