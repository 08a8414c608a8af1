package deploy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// The fields that each kind uses. A field that isn't here is a mistake, in the file or in this list.
type (
	header struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
		Metadata   metadata
	}
	metadata struct {
		Name, Namespace     string
		Labels, Annotations texts
	}
	keyRef    struct{ Name, Key string }
	configMap struct {
		header `yaml:",inline"`
		Data   texts
	}
	deployment struct {
		header `yaml:",inline"`
		Spec   struct {
			Selector struct {
				MatchLabels texts `yaml:"matchLabels"`
			}
			Template struct {
				Metadata metadata
				Spec     podSpec
			}
		}
	}
	podSpec struct {
		ServiceAccountName            string `yaml:"serviceAccountName"`
		AutomountServiceAccountToken  *bool  `yaml:"automountServiceAccountToken"`
		TerminationGracePeriodSeconds int    `yaml:"terminationGracePeriodSeconds"`
		SecurityContext               struct {
			RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
			SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
		} `yaml:"securityContext"`
		Containers []kubeContainer
	}
	kubeContainer struct {
		Name, Image   string
		Command, Args []string
		EnvFrom       []struct {
			ConfigMapRef struct{ Name string } `yaml:"configMapRef"`
		} `yaml:"envFrom"`
		Env []struct {
			Name      string
			ValueFrom struct {
				SecretKeyRef keyRef `yaml:"secretKeyRef"`
			} `yaml:"valueFrom"`
		}
		Ports []struct {
			Name          string
			ContainerPort int `yaml:"containerPort"`
			Protocol      string
		}
		LivenessProbe  kubeProbe `yaml:"livenessProbe"`
		ReadinessProbe kubeProbe `yaml:"readinessProbe"`
		Lifecycle      struct {
			PreStop struct {
				Sleep struct{ Seconds int }
			} `yaml:"preStop"`
		}
		Resources       struct{ Requests, Limits map[string]string }
		SecurityContext struct {
			AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
			ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
			Capabilities             struct{ Drop []string }
		} `yaml:"securityContext"`
	}
	kubeProbe struct {
		HTTPGet        struct{ Path, Port string } `yaml:"httpGet"`
		PeriodSeconds  int                         `yaml:"periodSeconds"`
		TimeoutSeconds int                         `yaml:"timeoutSeconds"`
	}
	service struct {
		header `yaml:",inline"`
		Spec   struct {
			Selector texts
			Ports    []struct {
				Name       string
				Port       int
				TargetPort string `yaml:"targetPort"`
			}
		}
	}
	triggerAuthentication struct {
		header `yaml:",inline"`
		Spec   struct {
			PodIdentity struct {
				Provider   string
				IdentityID string `yaml:"identityId"`
			} `yaml:"podIdentity"`
		}
	}
	scaledObject struct {
		header `yaml:",inline"`
		Spec   struct {
			ScaleTargetRef  struct{ Name string } `yaml:"scaleTargetRef"`
			MinReplicaCount *int                  `yaml:"minReplicaCount"`
			MaxReplicaCount int                   `yaml:"maxReplicaCount"`
			PollingInterval int                   `yaml:"pollingInterval"`
			CooldownPeriod  int                   `yaml:"cooldownPeriod"`
			Triggers        []struct {
				Type              string
				UseCachedMetrics  bool `yaml:"useCachedMetrics"`
				Metadata          texts
				AuthenticationRef struct{ Name string } `yaml:"authenticationRef"`
			}
		}
	}
	interceptorRoute struct {
		header `yaml:",inline"`
		Spec   struct {
			Target struct {
				Service string
				Port    int
			}
			Rules         []struct{ Hosts []string }
			ScalingMetric struct {
				Concurrency struct {
					TargetValue int `yaml:"targetValue"`
				}
			} `yaml:"scalingMetric"`
		}
	}
	ingress struct {
		header `yaml:",inline"`
		Spec   struct {
			Rules []struct {
				Host string
				HTTP struct {
					Paths []struct {
						Path     string
						PathType string `yaml:"pathType"`
						Backend  struct {
							Service struct {
								Name string
								Port struct{ Number int }
							}
						}
					}
				}
			}
		}
	}
)

// texts are values that Kubernetes accepts only as text: a number needs quotes.
type texts map[string]string

func (m *texts) UnmarshalYAML(n *yaml.Node) error {
	for i := 1; i < len(n.Content); i += 2 {
		if v := n.Content[i]; v.Tag != "!!str" {
			return fmt.Errorf("line %d: %s is no text", v.Line, v.Value)
		}
	}
	return n.Decode((*map[string]string)(m))
}

// The values that the tests put in the place of ${NAME}.
const (
	testAccount = "0012345" // a valid name, which YAML could take for a number
	testHost    = "tables.example.org"
)

type cluster struct {
	configMaps  map[string]configMap
	accounts    map[string]header
	deployments map[string]deployment
	services    map[string]service
	auths       map[string]triggerAuthentication
	scalers     map[string]scaledObject
	routes      map[string]interceptorRoute
	ingresses   map[string]ingress
	namespaces  map[string]header
	variables   map[string]bool // all names in ${}
	policies    map[string]networkPolicy
}

func readCluster(t *testing.T) cluster {
	t.Helper()
	c := cluster{
		map[string]configMap{}, map[string]header{}, map[string]deployment{}, map[string]service{}, map[string]triggerAuthentication{},
		map[string]scaledObject{}, map[string]interceptorRoute{}, map[string]ingress{}, map[string]header{}, map[string]bool{}, map[string]networkPolicy{},
	}
	values := map[string]string{"ACCOUNT": testAccount, "PREFIX": defaultPrefix(t), "HOST": testHost, "IMAGE": "registry.example.org/millrace:1",
		"WEB_CLIENT_ID": "id-of-web", "WORKER_CLIENT_ID": "id-of-worker", "SCALER_CLIENT_ID": "id-of-scaler"}
	for _, file := range []string{"kubernetes/app.yaml", "kubernetes/scaling.yaml"} {
		source := os.Expand(read(t, file), func(name string) string {
			c.variables[name] = true
			if values[name] == "" && name != "" {
				t.Errorf("%s: ${%s} is none of the variables that docs/azure.md sets", file, name)
			}
			return values[name]
		})
		for d := yaml.NewDecoder(strings.NewReader(source)); ; {
			var node yaml.Node
			if err := d.Decode(&node); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if node.Kind == 0 || len(node.Content) == 0 || node.Content[0].Tag == "!!null" {
				continue // comments before the first ---
			}
			var h header
			if err := node.Decode(&h); err != nil {
				t.Fatalf("%s, line %d: %v", file, node.Line, err)
			}
			switch kind := h.APIVersion + " " + h.Kind; kind {
			case "v1 Namespace":
				add(t, c.namespaces, &node)
			case "v1 ConfigMap":
				add(t, c.configMaps, &node)
			case "v1 ServiceAccount":
				add(t, c.accounts, &node)
			case "v1 Service":
				add(t, c.services, &node)
			case "apps/v1 Deployment":
				add(t, c.deployments, &node)
			case "networking.k8s.io/v1 Ingress":
				add(t, c.ingresses, &node)
			case "networking.k8s.io/v1 NetworkPolicy":
				add(t, c.policies, &node)
			case "keda.sh/v1alpha1 TriggerAuthentication":
				add(t, c.auths, &node)
			case "keda.sh/v1alpha1 ScaledObject":
				add(t, c.scalers, &node)
			case "http.keda.sh/v1beta1 InterceptorRoute":
				add(t, c.routes, &node)
			default:
				t.Errorf("%s, line %d: %q is nothing that this test knows", file, node.Line, kind)
			}
		}
	}
	return c
}

// add decodes a document, and refuses unknown fields.
func add[T any](t *testing.T, to map[string]T, node *yaml.Node) {
	t.Helper()
	var v T
	var h header
	text, err := yaml.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := errors.Join(d.Decode(&v), node.Decode(&h)); err != nil {
		t.Errorf("document at line %d: %v", node.Line, err)
	}
	name := h.Metadata.Name
	if !regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`).MatchString(name) {
		t.Errorf("document at line %d has the name %q", node.Line, name)
	}
	if want := "millrace"; h.Kind != "Namespace" && h.Kind != "Ingress" && h.Metadata.Namespace != want {
		t.Errorf("%s %s is in namespace %q, want %q", h.Kind, name, h.Metadata.Namespace, want)
	}
	if _, twice := to[name]; twice {
		t.Errorf("%s %s is there twice", h.Kind, name)
	}
	to[name] = v
}

func TestKubernetes(t *testing.T) {
	t.Parallel()
	all, c := running(t), readCluster(t)
	if got, want := slices.Sorted(maps.Keys(c.deployments)), []string{"web", "worker"}; !slices.Equal(got, want) {
		t.Fatalf("got deployments %q, want %q", got, want)
	}
	for name, d := range c.deployments {
		pod := d.Spec.Template
		if got := c.accounts[name].Metadata.Annotations["azure.workload.identity/client-id"]; pod.Spec.ServiceAccountName != name || got != "id-of-"+name {
			t.Errorf("%s runs as service account %q, which is the identity %q", name, pod.Spec.ServiceAccountName, got)
		}
		if pod.Metadata.Labels["azure.workload.identity/use"] != "true" {
			t.Errorf("%s gets no token for Azure", name)
		}
		if pod.Metadata.Labels["app"] != name || !maps.Equal(d.Spec.Selector.MatchLabels, texts{"app": name}) {
			t.Errorf("%s: labels %v, selector %v", name, pod.Metadata.Labels, d.Spec.Selector.MatchLabels)
		}
		if len(pod.Spec.Containers) != 1 || pod.Spec.Containers[0].Name != name {
			t.Fatalf("%s: got containers %v", name, pod.Spec.Containers)
		}
		one := pod.Spec.Containers[0]
		if s := one.SecurityContext; !pod.Spec.SecurityContext.RunAsNonRoot || pod.Spec.SecurityContext.SeccompProfile.Type != "RuntimeDefault" ||
			!s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) ||
			pod.Spec.AutomountServiceAccountToken == nil || *pod.Spec.AutomountServiceAccountToken {
			t.Errorf("%s has more rights than it needs", name)
		}
		if one.Resources.Limits["memory"] == "" || one.Resources.Requests["cpu"] == "" || one.Resources.Requests["memory"] == "" {
			t.Errorf("%s: got resources %v", name, one.Resources)
		}
		c.container(t, pod.Spec, one).check(t, all)
	}
	if got, want := c.configMaps["millrace"].Data["MILLRACE_STORE"], "azure://"+testAccount+"?prefix="+defaultPrefix(t); got != want {
		t.Errorf("got store %q, want %q", got, want)
	}
	worker := c.deployments["worker"].Spec.Template.Spec.Containers[0]
	for _, p := range worker.Ports {
		if p.Protocol == "UDP" && !slices.Contains(worker.Args, fmt.Sprintf("-doorbell=:%d", p.ContainerPort)) {
			t.Errorf("the worker is rung at port %d, and gets %q", p.ContainerPort, worker.Args)
		}
	}
	s := c.services["web"].Spec
	if len(s.Ports) != 1 || s.Ports[0].TargetPort != "http" || s.Selector["app"] != "web" {
		t.Errorf("got service %v, want one that leads to the web", s)
	}
}

// container is a container in the form that the check of both templates takes.
func (c cluster) container(t *testing.T, pod podSpec, k kubeContainer) container {
	t.Helper()
	ports := map[string]string{}
	for _, p := range k.Ports {
		ports[p.Name] = strconv.Itoa(p.ContainerPort)
	}
	one := container{name: k.Name, args: k.Args, command: strings.Join(k.Command, " "), probes: map[string]probe{}}
	for _, from := range k.EnvFrom {
		if _, ok := c.configMaps[from.ConfigMapRef.Name]; !ok {
			t.Errorf("%s: there is no ConfigMap %q", k.Name, from.ConfigMapRef.Name)
		}
		one.env = slices.AppendSeq(one.env, maps.Keys(c.configMaps[from.ConfigMapRef.Name].Data))
	}
	for _, e := range k.Env {
		one.env = append(one.env, e.Name)
		if e.ValueFrom.SecretKeyRef.Name == "" || e.ValueFrom.SecretKeyRef.Key == "" {
			t.Errorf("%s: %s comes from nowhere", k.Name, e.Name)
		}
	}
	for kind, p := range map[string]kubeProbe{"liveness": k.LivenessProbe, "readiness": k.ReadinessProbe} {
		if p.HTTPGet.Path != "" {
			one.probes[kind] = probe{p.HTTPGet.Path, ports[p.HTTPGet.Port]}
		}
	}
	// A sleep before the signal takes a part of the grace period.
	one.grace = time.Duration(pod.TerminationGracePeriodSeconds-k.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	return one
}

func TestKubernetesScaling(t *testing.T) {
	t.Parallel()
	c, n := readCluster(t), readNames(t)
	if a := c.auths["scaler"].Spec.PodIdentity; a.Provider != "azure-workload" || a.IdentityID != "id-of-scaler" {
		t.Errorf("KEDA authenticates by %v, want workload identity", a)
	}

	worker := c.scalers["worker"].Spec
	if worker.ScaleTargetRef.Name != "worker" || worker.MinReplicaCount == nil || *worker.MinReplicaCount != 0 || worker.MaxReplicaCount < 2 {
		t.Errorf("got %v, want workers from none", worker)
	}
	var queues []string
	for _, trigger := range worker.Triggers {
		if trigger.Type != "azure-queue" || trigger.AuthenticationRef.Name != "scaler" {
			t.Errorf("got trigger %v", trigger)
		}
		queues = append(queues, checkQueueTrigger(t, trigger.Metadata, testAccount, defaultPrefix(t)))
	}
	if got, want := slices.Sorted(slices.Values(queues)), sorted(n.Queues); !slices.Equal(got, want) {
		t.Errorf("workers scale by queues %q, want %q", got, want)
	}
	checkTimes(t, worker.PollingInterval, worker.CooldownPeriod)

	web, route := c.scalers["web"].Spec, c.routes["web"].Spec
	if len(web.Triggers) != 1 || web.Triggers[0].Type != "external-push" || web.Triggers[0].Metadata["interceptorRoute"] != "web" || web.ScaleTargetRef.Name != "web" {
		t.Errorf("got %v, want the web scaled by its requests", web)
	}
	if ports := c.services[route.Target.Service].Spec.Ports; len(ports) != 1 || ports[0].Port != route.Target.Port || route.ScalingMetric.Concurrency.TargetValue <= 0 {
		t.Errorf("got route %v, want one to the service of the web", route)
	}
	in := c.ingresses["millrace"]
	if in.Metadata.Namespace != "keda" || len(in.Spec.Rules) != 1 || in.Spec.Rules[0].Host != testHost || len(in.Spec.Rules[0].HTTP.Paths) != 1 ||
		len(route.Rules) != 1 || !slices.Equal(route.Rules[0].Hosts, []string{testHost}) {
		t.Errorf("the host of %v is not that of %v", in.Spec, route.Rules)
	}
}

// The alternative trigger in the comments is right once it is no comment any more.
func TestKubernetesScaleByUsefulWorkers(t *testing.T) {
	t.Parallel()
	const begin = "    # - type: metrics-api\n"
	_, block, found := strings.Cut(read(t, "kubernetes/scaling.yaml"), begin)
	block, _, _ = strings.Cut(begin+block, "---")
	var triggers []struct {
		Type             string
		UseCachedMetrics bool `yaml:"useCachedMetrics"`
		Metadata         texts
	}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(block, "    # ", "")), &triggers); err != nil || !found || len(triggers) != 1 {
		t.Fatalf("got %+v, %v", triggers, err)
	}
	m := triggers[0].Metadata
	u, err := url.Parse(m["url"])
	if err != nil || u.Path != "/scale" || !slices.Contains(running(t).queues, u.Query().Get("queue")) || m["valueLocation"] != "value" || m["targetValue"] != "1" {
		t.Errorf("got %q, %v; want /scale of a queue, and a worker for each one that is useful", m, err)
	}
}

// checkQueueTrigger checks the KEDA trigger of a queue in both templates, and returns the queue's name without the
// prefix.
func checkQueueTrigger(t *testing.T, m map[string]string, account, prefix string) string {
	t.Helper()
	queue, ok := strings.CutPrefix(m["queueName"], prefix+"-")
	if !ok || m["accountName"] != account {
		t.Errorf("got queue %q of account %q, want %s-… of %s", m["queueName"], m["accountName"], prefix, account)
	}
	if got, want := slices.Sorted(maps.Keys(m)), []string{"accountName", "activationQueueLength", "queueLength", "queueLengthStrategy", "queueName"}; !slices.Equal(got, want) {
		t.Errorf("%s: got %q, want %q", queue, got, want)
	}
	if m["queueLengthStrategy"] != "visibleonly" {
		t.Errorf("%s: got strategy %q: delayed messages would hold workers up", queue, m["queueLengthStrategy"])
	}
	if m["activationQueueLength"] != "0" {
		t.Errorf("%s: %s messages would wait for ever", queue, m["activationQueueLength"])
	}
	if per, err := strconv.Atoi(m["queueLength"]); err != nil || per < 32 {
		t.Errorf("%s: a worker for each %q messages is less than one handles at a time", queue, m["queueLength"])
	}
	return queue
}

// checkTimes checks KEDA's times. KEDA doesn't count messages that workers hold. So a worker must stay for longer
// than handlers run, and KEDA must poll often enough in that time.
func checkTimes(t *testing.T, polling, cooldown int) {
	t.Helper()
	if polling <= 0 || cooldown < 300 || cooldown < 5*polling {
		t.Errorf("got polling every %d s and a cooldown of %d s", polling, cooldown)
	}
}

type networkPolicy struct {
	header `yaml:",inline"`
	Spec   struct {
		PodSelector selector `yaml:"podSelector"`
		PolicyTypes []string `yaml:"policyTypes"`
		Ingress     []struct {
			From []struct {
				NamespaceSelector selector `yaml:"namespaceSelector"`
				PodSelector       selector `yaml:"podSelector"`
			}
			Ports []struct{ Protocol, Port string }
		}
	}
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

// Each deployment whose admin port listens on all addresses has a policy that lets only labelled namespaces reach the
// port. Its other ports stay open to the pods beside it.
func TestAPolicyGuardsTheAdminPort(t *testing.T) {
	t.Parallel()
	c := readCluster(t)
	guarded := 0
	for name := range c.deployments {
		open := false
		for _, port := range c.deployments[name].Spec.Template.Spec.Containers[0].Ports {
			open = open || port.Name == "admin"
		}
		if !open {
			continue
		}
		guarded++
		p := c.policies[name]
		if p.Spec.PodSelector.MatchLabels["app"] != name || fmt.Sprint(p.Spec.PolicyTypes) != "[Ingress]" {
			t.Errorf("%s: got policy %+v, want one for what comes to its pods", name, p.Spec)
		}
		for _, rule := range p.Spec.Ingress {
			for _, port := range rule.Ports {
				if len(rule.From) == 0 || port.Port == "admin" && (len(rule.From) != 1 || len(rule.From[0].NamespaceSelector.MatchLabels) == 0) {
					t.Errorf("%s: got %+v, want the admin port for labelled namespaces alone", name, rule)
				}
			}
			if len(rule.Ports) == 0 {
				t.Errorf("%s: a rule is for all ports", name)
			}
		}
	}
	if guarded == 0 {
		t.Error("no deployment has an admin port; the test checks nothing")
	}
}
