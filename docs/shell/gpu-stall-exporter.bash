# Completion of gpu-stall-exporter for bash, made by `gpu-stall-exporter completion bash`.
_gpu_stall_exporter() {
    local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}
    local command="" flag="" word
    COMPREPLY=()
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case $word in
        run|check|explain|top|rates|demo|completion|assets) command=$word; break ;;
        esac
    done
    # bash splits --flag=value into three words.
    if [[ $current == = ]]; then
        flag=$before current=""
    elif [[ $before == = ]]; then
        flag=${COMP_WORDS[COMP_CWORD-2]}
    elif [[ $before == --* ]]; then
        flag=$before
    fi
    case "$command $flag" in
    "run --config.file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "run --node") :; return ;;
    "run --tick.interval") :; return ;;
    "run --recording.directory") mapfile -t COMPREPLY < <(compgen -d -- "$current"); compopt -o filenames; return ;;
    "run --nccl.hash-key-file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "run --path.procfs") mapfile -t COMPREPLY < <(compgen -d -- "$current"); compopt -o filenames; return ;;
    "run --web.listen-address") :; return ;;
    "run --web.systemd-socket") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --web.config.file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "run --web.open-health") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --web.enable-lifecycle") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --web.telemetry-path") :; return ;;
    "run --web.max-requests") :; return ;;
    "run --web.disable-exporter-metrics") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --probes.attach") mapfile -t COMPREPLY < <(compgen -W "auto session multi single" -- "$current"); return ;;
    "run --probes.launch") mapfile -t COMPREPLY < <(compgen -W "full sampled off" -- "$current"); return ;;
    "run --probes.overhead-limit") :; return ;;
    "run --probes.returns") mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$current"); return ;;
    "run --probes.on-arm64") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --probes.attach-once") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --probes.discovery-interval") :; return ;;
    "run --collector.cuda") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --collector.nccl") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --collector.sched") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --collector.chains") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --collector.engine") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --collector.block") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --collector.memory") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --collector.memory.page-allocations") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --collector.cpu") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --collector.process") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --collector.network") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --collector.network.namespaces") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --collector.device") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --collector.allocator") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --collector.graph") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --collector.launch") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --collector.memcpy") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --series.ttl") :; return ;;
    "run --series.max-workloads") :; return ;;
    "run --history.path") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "run --history.max-bytes") :; return ;;
    "run --history.retention") :; return ;;
    "run --orchestrator.kind") mapfile -t COMPREPLY < <(compgen -W "auto kubernetes kubelet ecs ecs-agent none" -- "$current"); return ;;
    "run --orchestrator.url") :; return ;;
    "run --orchestrator.ca-file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "run --orchestrator.token-file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "run --orchestrator.verify") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --otlp.endpoint") :; return ;;
    "run --otlp.logs") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --otlp.traces") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "run --otlp.protocol") mapfile -t COMPREPLY < <(compgen -W "http/json http/protobuf" -- "$current"); return ;;
    "run --otlp.compression") mapfile -t COMPREPLY < <(compgen -W "gzip none" -- "$current"); return ;;
    "run --otlp.interval") :; return ;;
    "run --otlp.timeout") :; return ;;
    "run --otlp.temporality") mapfile -t COMPREPLY < <(compgen -W "cumulative delta lowmemory" -- "$current"); return ;;
    "run --otlp.histograms") mapfile -t COMPREPLY < <(compgen -W "exponential explicit" -- "$current"); return ;;
    "run --otlp.headers-file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "run --otlp.ca-file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "run --otlp.client-certificate-file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "run --otlp.client-key-file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "run --otlp.service-name") :; return ;;
    "run --otlp.resource-attributes") :; return ;;
    "run --log.level") mapfile -t COMPREPLY < <(compgen -W "debug info warning error" -- "$current"); return ;;
    "run --log.format") mapfile -t COMPREPLY < <(compgen -W "logfmt json" -- "$current"); return ;;
    "check --format") mapfile -t COMPREPLY < <(compgen -W "text json" -- "$current"); return ;;
    "check --support-bundle") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "check --config.file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "check --node") :; return ;;
    "check --tick.interval") :; return ;;
    "check --recording.directory") mapfile -t COMPREPLY < <(compgen -d -- "$current"); compopt -o filenames; return ;;
    "check --nccl.hash-key-file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "check --path.procfs") mapfile -t COMPREPLY < <(compgen -d -- "$current"); compopt -o filenames; return ;;
    "check --web.listen-address") :; return ;;
    "check --web.systemd-socket") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --web.config.file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "check --web.open-health") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --web.enable-lifecycle") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --web.telemetry-path") :; return ;;
    "check --web.max-requests") :; return ;;
    "check --web.disable-exporter-metrics") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --probes.attach") mapfile -t COMPREPLY < <(compgen -W "auto session multi single" -- "$current"); return ;;
    "check --probes.launch") mapfile -t COMPREPLY < <(compgen -W "full sampled off" -- "$current"); return ;;
    "check --probes.overhead-limit") :; return ;;
    "check --probes.returns") mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$current"); return ;;
    "check --probes.on-arm64") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --probes.attach-once") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --probes.discovery-interval") :; return ;;
    "check --collector.cuda") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --collector.nccl") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --collector.sched") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --collector.chains") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --collector.engine") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --collector.block") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --collector.memory") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --collector.memory.page-allocations") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --collector.cpu") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --collector.process") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --collector.network") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --collector.network.namespaces") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --collector.device") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --collector.allocator") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --collector.graph") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --collector.launch") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --collector.memcpy") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --series.ttl") :; return ;;
    "check --series.max-workloads") :; return ;;
    "check --history.path") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "check --history.max-bytes") :; return ;;
    "check --history.retention") :; return ;;
    "check --orchestrator.kind") mapfile -t COMPREPLY < <(compgen -W "auto kubernetes kubelet ecs ecs-agent none" -- "$current"); return ;;
    "check --orchestrator.url") :; return ;;
    "check --orchestrator.ca-file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "check --orchestrator.token-file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "check --orchestrator.verify") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --otlp.endpoint") :; return ;;
    "check --otlp.logs") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --otlp.traces") mapfile -t COMPREPLY < <(compgen -W "true false" -- "$current"); return ;;
    "check --otlp.protocol") mapfile -t COMPREPLY < <(compgen -W "http/json http/protobuf" -- "$current"); return ;;
    "check --otlp.compression") mapfile -t COMPREPLY < <(compgen -W "gzip none" -- "$current"); return ;;
    "check --otlp.interval") :; return ;;
    "check --otlp.timeout") :; return ;;
    "check --otlp.temporality") mapfile -t COMPREPLY < <(compgen -W "cumulative delta lowmemory" -- "$current"); return ;;
    "check --otlp.histograms") mapfile -t COMPREPLY < <(compgen -W "exponential explicit" -- "$current"); return ;;
    "check --otlp.headers-file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "check --otlp.ca-file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "check --otlp.client-certificate-file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "check --otlp.client-key-file") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "check --otlp.service-name") :; return ;;
    "check --otlp.resource-attributes") :; return ;;
    "check --log.level") mapfile -t COMPREPLY < <(compgen -W "debug info warning error" -- "$current"); return ;;
    "check --log.format") mapfile -t COMPREPLY < <(compgen -W "logfmt json" -- "$current"); return ;;
    "explain --since") :; return ;;
    "explain --workload") :; return ;;
    "explain --format") mapfile -t COMPREPLY < <(compgen -W "text json" -- "$current"); return ;;
    "explain --recording") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "explain --confirm") :; return ;;
    "explain --confirm-by") mapfile -t COMPREPLY < <(compgen -W "sigstop sched-idle" -- "$current"); return ;;
    "explain --url") :; return ;;
    "explain --history.path") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "top --url") :; return ;;
    "top --interval") :; return ;;
    "top --sort") mapfile -t COMPREPLY < <(compgen -W "lost step late calls rank node" -- "$current"); return ;;
    "top --filter") :; return ;;
    "top --format") mapfile -t COMPREPLY < <(compgen -W "text json" -- "$current"); return ;;
    "rates --rates") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "rates --format") mapfile -t COMPREPLY < <(compgen -W "rules kubernetes" -- "$current"); return ;;
    "rates --output") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "demo --duration") :; return ;;
    "demo --format") mapfile -t COMPREPLY < <(compgen -W "text json" -- "$current"); return ;;
    "demo --replay") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "demo --save") mapfile -t COMPREPLY < <(compgen -f -- "$current"); compopt -o filenames; return ;;
    "assets --output") mapfile -t COMPREPLY < <(compgen -d -- "$current"); compopt -o filenames; return ;;
    "assets --runbook-url") :; return ;;
    esac
    case $command in
    run) word="--help --config.file= --node= --tick.interval= --recording.directory= --nccl.hash-key-file= --path.procfs= --web.listen-address= --web.systemd-socket= --web.config.file= --web.open-health= --web.enable-lifecycle= --web.telemetry-path= --web.max-requests= --web.disable-exporter-metrics= --probes.attach= --probes.launch= --probes.overhead-limit= --probes.returns= --probes.on-arm64= --probes.attach-once= --probes.discovery-interval= --collector.cuda= --no-collector.cuda --collector.nccl= --no-collector.nccl --collector.sched= --no-collector.sched --collector.chains= --no-collector.chains --collector.engine= --no-collector.engine --collector.block= --no-collector.block --collector.memory= --no-collector.memory --collector.memory.page-allocations= --no-collector.memory.page-allocations --collector.cpu= --no-collector.cpu --collector.process= --no-collector.process --collector.network= --no-collector.network --collector.network.namespaces= --no-collector.network.namespaces --collector.device= --no-collector.device --collector.allocator= --no-collector.allocator --collector.graph= --no-collector.graph --collector.launch= --no-collector.launch --collector.memcpy= --no-collector.memcpy --series.ttl= --series.max-workloads= --history.path= --history.max-bytes= --history.retention= --orchestrator.kind= --orchestrator.url= --orchestrator.ca-file= --orchestrator.token-file= --orchestrator.verify= --otlp.endpoint= --otlp.logs= --otlp.traces= --otlp.protocol= --otlp.compression= --otlp.interval= --otlp.timeout= --otlp.temporality= --otlp.histograms= --otlp.headers-file= --otlp.ca-file= --otlp.client-certificate-file= --otlp.client-key-file= --otlp.service-name= --otlp.resource-attributes= --log.level= --log.format=" ;;
    check) word="--help --format= --support-bundle= --config.file= --node= --tick.interval= --recording.directory= --nccl.hash-key-file= --path.procfs= --web.listen-address= --web.systemd-socket= --web.config.file= --web.open-health= --web.enable-lifecycle= --web.telemetry-path= --web.max-requests= --web.disable-exporter-metrics= --probes.attach= --probes.launch= --probes.overhead-limit= --probes.returns= --probes.on-arm64= --probes.attach-once= --probes.discovery-interval= --collector.cuda= --no-collector.cuda --collector.nccl= --no-collector.nccl --collector.sched= --no-collector.sched --collector.chains= --no-collector.chains --collector.engine= --no-collector.engine --collector.block= --no-collector.block --collector.memory= --no-collector.memory --collector.memory.page-allocations= --no-collector.memory.page-allocations --collector.cpu= --no-collector.cpu --collector.process= --no-collector.process --collector.network= --no-collector.network --collector.network.namespaces= --no-collector.network.namespaces --collector.device= --no-collector.device --collector.allocator= --no-collector.allocator --collector.graph= --no-collector.graph --collector.launch= --no-collector.launch --collector.memcpy= --no-collector.memcpy --series.ttl= --series.max-workloads= --history.path= --history.max-bytes= --history.retention= --orchestrator.kind= --orchestrator.url= --orchestrator.ca-file= --orchestrator.token-file= --orchestrator.verify= --otlp.endpoint= --otlp.logs= --otlp.traces= --otlp.protocol= --otlp.compression= --otlp.interval= --otlp.timeout= --otlp.temporality= --otlp.histograms= --otlp.headers-file= --otlp.ca-file= --otlp.client-certificate-file= --otlp.client-key-file= --otlp.service-name= --otlp.resource-attributes= --log.level= --log.format=" ;;
    explain) word="--help --since= --workload= --per-process --format= --recording= --confirm= --confirm-by= --yes --url= --history.path=" ;;
    top) word="--help --url= --interval= --sort= --filter= --once --format=" ;;
    rates) word="--help --rates= --format= --output=" ;;
    demo) word="incident cold-start memcpy-bottleneck periodic-spike cpu-contention gpu-steal dataloader straggler hang all --help --duration= --format= --replay= --save=" ;;
    completion) word="bash zsh fish man --help" ;;
    assets) word="--help --output= --runbook-url= --force" ;;
    *) word="run check explain top rates demo completion assets --help --version" ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$word" -- "$current")
    if [[ ${#COMPREPLY[@]} == 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace
    fi
}
complete -F _gpu_stall_exporter gpu-stall-exporter
