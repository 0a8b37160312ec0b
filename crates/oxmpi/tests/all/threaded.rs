//! A process whose threads all communicate. It has its own program, since a process initialises
//! once.

use oxmpi::{
    ANY_SOURCE, Communicator, ErrorKind, Group, Message, Multiple, Persistent, Request, RequestSet,
    ScopedRequest, Started, Strided, StridedMut, Universe,
};

fn is_shared<T: Send + Sync>() {}

#[test]
fn all_threads_may_call_and_the_types_say_so() {
    is_shared::<Universe<Multiple>>();
    is_shared::<Communicator<'static, Multiple>>();
    is_shared::<Request<'static, u8, Multiple>>();
    is_shared::<RequestSet<Request<'static, u8, Multiple>>>();
    is_shared::<Message<'static, Multiple>>();
    is_shared::<Persistent<'static, u8, Multiple>>();
    is_shared::<Started<'static, 'static, u8, Multiple>>();
    is_shared::<ScopedRequest<'static, Multiple>>();
    is_shared::<Group>();
    is_shared::<Strided<'static, u8>>();
    is_shared::<StridedMut<'static, u8>>();

    let universe = oxmpi::init_threaded().unwrap();
    assert_eq!(oxmpi::init().unwrap_err().kind(), ErrorKind::AlreadyInitialized);
    let world = universe.world();
    assert_eq!((world.rank(), world.size(), universe.own().size()), (0, 1, 1));
    std::thread::scope(|s| {
        for tag in 0..4 {
            let world = &world;
            s.spawn(move || {
                for n in 0..500 {
                    world.isend(vec![n; 1 + n % 300], 0, tag).unwrap().wait().unwrap();
                }
            });
            s.spawn(move || {
                for n in 0..500 {
                    assert_eq!(world.recv::<usize>(0, tag).unwrap().0, vec![n; 1 + n % 300]);
                }
            });
        }
        // Several threads wait for the same messages. Each message goes to one thread, whole.
        for _ in 0..2 {
            s.spawn(|| {
                for _ in 0..200 {
                    let (data, status) = world.recv::<u8>(ANY_SOURCE, 9).unwrap();
                    assert_eq!(data, vec![data[0]; status.bytes()]);
                    assert_eq!(data.len(), 1 + usize::from(data[0]));
                }
            });
        }
        // Scopes of several threads, and probed messages, each owned by one thread.
        for tag in 20..22 {
            let world = &world;
            s.spawn(move || {
                for n in 0..200 {
                    let (data, mut back) = (vec![n; 1 + n % 500], vec![0; 1 + n % 500]);
                    let found = world.scope(|s| {
                        s.isend(&data, 0, tag)?;
                        s.isend(&data, 0, tag + 10)?;
                        s.irecv(&mut back, 0, tag)?;
                        world.mprobe(0, tag + 10)?.recv::<usize>()
                    });
                    assert_eq!((found.unwrap().0, &back), (data.clone(), &data));
                }
            });
        }
        s.spawn(|| {
            for n in 0..400 {
                let n = (n % 256) as u8;
                world.send(&vec![n; 1 + usize::from(n)], 0, 9).unwrap();
            }
        });
    });
    universe.finalize().unwrap();
    assert_eq!(oxmpi::init().unwrap_err().kind(), ErrorKind::AlreadyInitialized);
}
