//! `check` reads and changes nothing.

use crate::{
    scene::{FAMILIES, Scene},
    socket::{Connection, Values, keep_alive, options, set_values},
};

#[test]
fn the_options_of_every_socket_are_as_they_were() {
    let scene = Scene::new();
    let connections: Vec<Connection> = FAMILIES
        .into_iter()
        .flat_map(|family| {
            let [mut off, mut on, mut armed] = [(); 3].map(|()| scene.connect(family));
            keep_alive(&on.client, Values(60, 30, 3));
            keep_alive(&on.server, Values(870, 31, 4));
            set_values(&armed.client, Values(30, 7, 2));
            for connection in [&mut off, &mut on, &mut armed] {
                connection.ask();
            }
            [off, on, armed]
        })
        .collect();
    let read = || -> Vec<_> {
        connections.iter().flat_map(|c| [options(&c.client), options(&c.server)]).collect()
    };
    let before = read();
    scene.check_all(&["--limit", "900s"]).report(1);
    scene.check_client(&["--limit", "900s", "--sample", "100ms"]).report(1);
    assert_eq!(read(), before);
}
