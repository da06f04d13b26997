"""Runs a whole cluster on one machine, as child processes of one parent.

Problem. A user starts and stops one command, but the cluster consists of several processes. None may outlive its
parent, two clusters must not use the same data folder, and a process that crashes must be restarted.

Rules. The parent knows its children only by their commands, broker.conf and log files; it imports neither a broker nor
Spark.

- Processes: `cluster` starts the brokers and the pipeline, restarts those that fail, and ends all in order. `process`
  is one child; `parent_watch` ends it with its parent. `interruptible` is work that a signal ends. `scheduling` makes
  the threads of a broker's process run again sooner.
- Data: `data_directory` defines the paths in the data folder and locks it. `ephemeral` is a folder for one run;
  `folder_remover` deletes it, also after a kill.
- Output: `progress` is the interface for the steps of the start, `ready` the line that is printed when a broker or the
  cluster serves clients, `restarts` a note in the data folder while the pipeline is restarted, `errors` the errors.
"""
