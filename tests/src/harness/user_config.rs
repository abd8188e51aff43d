//! The config file of the sandbox's user.

use std::fs;

use serde_json::Value;

use super::TestSandbox;

impl TestSandbox {
    /// Changes the config file of the user; an absent one is null.
    ///
    /// # Panics
    ///
    /// If the file is no JSON or cannot be written.
    pub fn change_user_config(&self, change: impl FnOnce(&mut Value)) {
        let file = self.file("home/.config/subagent/config.yaml");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let mut config = fs::read(&file).map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).unwrap());
        change(&mut config);
        fs::write(file, config.to_string()).unwrap();
    }

    /// Writes a placement into the config file of the user. These keys replace those of the placement.
    ///
    /// # Panics
    ///
    /// If the keys are no object, and those of [`Self::change_user_config`].
    pub fn place(&self, name: &str, mut placement: Value, keys: Value) {
        placement.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
        self.change_user_config(|config| config["placements"][name] = placement);
    }
}
