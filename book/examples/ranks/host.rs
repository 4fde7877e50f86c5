//! What the host does for kernels on several devices: memory, copies, flags and agreement, also with a process for each device.
//!
//! Run it with `cargo run -p colex-book --example ranks_host`; each line `== .. ==` names a piece of the chapter.

use std::error::Error;
use std::time::Duration;

use colex_atom::Arch;
use colex_gpu::ranks::{Meeting, ProcessProduct, RankOptions, RankProblem, RankProcess};
use colex_gpu::{Device, Flags};
use colex_sched::Overlap;
use half::bf16;

fn main() -> Result<(), Box<dyn Error>> {
    host()?;
    processes()?;
    other_hosts()?;
    exercise_2()
}

fn host() -> Result<(), Box<dyn Error>> {
    println!("\n== flags ==");
    // ANCHOR: flags
    let device = Device::open(); // the first GPU, or the simulator
    let copies = device.on_new_stream()?;
    let flags = Flags::new(&device, 2)?;
    let (from, to) = (device.upload(&[1.0f32, 2.0])?, device.zeros::<f32>(2)?);
    device.synchronize()?;

    copies.enqueue_copy(&to, &from)?; // a copy engine, and no kernel
    flags.set(&copies, 1, 1)?; // flag 1 in round 1, after the copy
    flags.wait(&device, 1, 1)?; // the work that follows waits for it
    device.synchronize_within(Duration::from_secs(10))?;
    println!("{:?}, {:?}", to.download()?, flags.buffer().download()?);
    println!("{}", flags.set(&device, 0, 0).unwrap_err());
    // ANCHOR_END: flags

    println!("\n== meeting ==");
    // ANCHOR: meeting
    fn rank(mut meeting: Meeting) -> Result<String, colex_gpu::Error> {
        let own = [10 * meeting.rank() as u8]; // any bytes, such as an exported buffer
        let all = meeting.exchange(&own)?;
        let problem = RankProblem {
            overlap: Overlap::GatherProduct,
            ranks: 2,
            m: 4,
            n: 2,
            k: 3 + meeting.rank() as i64,
        };
        let disagreement = meeting.agree(problem).unwrap_err();
        Ok(format!("{all:?}, {disagreement}"))
    }
    let meetings = Meeting::local(2, Duration::from_secs(10))?;
    let threads = meetings
        .into_iter()
        .map(|meeting| std::thread::spawn(|| rank(meeting)));
    let threads: Vec<_> = threads.collect();
    for thread in threads {
        println!("{}", thread.join().expect("no rank panics")?);
    }
    // ANCHOR_END: meeting
    Ok(())
}

fn processes() -> Result<(), Box<dyn Error>> {
    println!("\n== processes ==");
    // ANCHOR: processes
    /// What a process does with its device.
    fn rank(meeting: Meeting, device: Device) -> Result<String, colex_gpu::Error> {
        let process = RankProcess::join(meeting, &device)?;
        let problem = RankProblem {
            overlap: Overlap::GatherProduct,
            ranks: 2,
            m: 16,
            n: 16,
            k: 16,
        };
        let options = RankOptions::default();
        let mut product = ProcessProduct::<bf16, f32>::new(&process, problem, &options)?;
        let part = [bf16::from_f32(process.rank() as f32 + 1.0); 8 * 16];
        product.a()?.write(&part)?;
        product.b().write(&[bf16::ONE; 8 * 16])?;
        product.run()?;
        product.wait(Duration::from_secs(10))?;
        let c = product.c().download()?;
        let said = format!("rank {}: {} .. {}", process.rank(), c[0], c[16 * 8 - 1]);
        if process.rank() == 1 {
            return Ok(said); // it does not come to another round
        }
        let second = product
            .run()
            .and_then(|()| product.wait(Duration::from_secs(2)));
        Ok(format!("{said}\nrank 0: {}", second.unwrap_err()))
    }

    let device = Device::simulator(Arch::Sm90a);
    let meetings = Meeting::local(2, Duration::from_secs(2))?.into_iter();
    let threads: Vec<_> = meetings
        .map(|meeting| {
            let device = device.clone(); // a process opens a GPU of its own
            std::thread::spawn(move || rank(meeting, device))
        })
        .collect();
    for thread in threads {
        println!("{}", thread.join().expect("no rank panics")?);
    }
    // ANCHOR_END: processes
    Ok(())
}

fn other_hosts() -> Result<(), Box<dyn Error>> {
    println!("\n== other_hosts ==");
    // ANCHOR: other_hosts
    fn rank(meeting: Meeting) -> Result<String, colex_gpu::Error> {
        let device = Device::simulator(Arch::Sm90a); // with memory of its own, as on another host
        let process = RankProcess::join(meeting, &device)?;
        let problem = RankProblem {
            overlap: Overlap::ProductScatter,
            ranks: 2,
            m: 16,
            n: 8,
            k: 32,
        };
        let options = RankOptions::default();
        let mut product = ProcessProduct::<bf16, bf16, f32>::new(&process, problem, &options)?;
        let part = [bf16::from_f32(process.rank() as f32 + 1.0); 16 * 16];
        product.a()?.write(&part)?;
        product.b().write(&[bf16::ONE; 8 * 16])?;
        product.run()?;
        product.wait(Duration::from_secs(10))?;
        let (path, sum) = (product.path(), product.c().download()?[0]);
        Ok(format!("rank {}: {sum} by {path}", process.rank()))
    }

    let meetings = Meeting::local(2, Duration::from_secs(10))?.into_iter();
    let threads: Vec<_> = meetings
        .map(|meeting| std::thread::spawn(|| rank(meeting)))
        .collect();
    for thread in threads {
        println!("{}", thread.join().expect("no rank panics")?);
    }
    // ANCHOR_END: other_hosts
    Ok(())
}

/// Exercise 2: a rank that does not come to an exchange, and one that is gone.
fn exercise_2() -> Result<(), Box<dyn Error>> {
    println!("\n== exercise_2 ==");
    // ANCHOR: exercise_2
    for is_gone in [false, true] {
        let mut meetings = Meeting::local(2, Duration::from_millis(400))?;
        if is_gone {
            meetings.pop(); // the meeting of rank 1
        }
        println!("{}", meetings[0].exchange(&[7]).unwrap_err());
    }
    // ANCHOR_END: exercise_2
    Ok(())
}
