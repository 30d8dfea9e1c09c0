#include "site.hh"

#include <cstdlib>
#include <cstring>
#include <functional>
#include <sstream>
#include <stdexcept>

namespace namewire_xrootd {

namespace {

/* A number of a parameter. */
std::uint64_t number_of(const std::string &key, const std::string &value)
{
	char *end = nullptr;
	errno = 0;
	const unsigned long long number = std::strtoull(value.c_str(), &end, 10);
	if (value.empty() || value[0] < '0' || value[0] > '9' || *end || errno == ERANGE)
		throw std::invalid_argument(key + "=" + value + ": a number is required");
	return number;
}

namewire::Error error_of(int number, const std::string &text)
{
	namewire_error error{};
	error.number = number;
	std::strncpy(error.text, text.c_str(), sizeof error.text - 1);
	return namewire::Error(error);
}

/* Appends a component: the bytes of a file name, as they are. */
void push_component(std::string &name, const std::string &part)
{
	static const char digits[] = "0123456789ABCDEF";
	name += '/';
	/* In URIs of names, a component of periods has three more of them. */
	if (part.find_first_not_of('.') == std::string::npos)
		name += "...";
	for (const char character : part) {
		const auto byte = static_cast<unsigned char>(character);
		const bool is_letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
		if (is_letter || (byte >= '0' && byte <= '9') || std::strchr("-._~", byte)) {
			name += character;
		} else {
			name += '%';
			name += digits[byte >> 4];
			name += digits[byte & 15];
		}
	}
}

} // namespace

Options Options::parse(const char *parameters)
{
	Options options;
	options.limits.size = sizeof options.limits;
	std::istringstream words(parameters ? parameters : "");
	std::string word;
	while (words >> word) {
		const std::size_t equals = word.find('=');
		if (equals == std::string::npos)
			throw std::invalid_argument(word + ": key=value is required");
		const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
		if (key == "prefix")
			options.prefix = value;
		else if (key == "verify")
			options.verify = value;
		else if (key == "transport")
			options.transport = value;
		else if (key == "timeout_ms")
			options.limits.timeout_ms = number_of(key, value);
		else if (key == "lifetime_ms")
			options.limits.lifetime_ms = number_of(key, value);
		else if (key == "metadata_lifetime_ms")
			options.limits.metadata_lifetime_ms = number_of(key, value);
		else if (key == "cache_bytes")
			options.limits.cache_bytes = number_of(key, value);
		else if (key == "cache_dir")
			options.cache_dir = value;
		else if (key == "cache_dir_size")
			options.cache_dir_size = value;
		else if (key == "read_ahead_bytes")
			options.limits.read_ahead_bytes = number_of(key, value);
		else
			throw std::invalid_argument(key + " is not an option");
	}
	if (options.prefix.empty() || options.prefix[0] != '/')
		throw std::invalid_argument("prefix=" + options.prefix + ": a name begins with /");
	while (!options.prefix.empty() && options.prefix.back() == '/')
		options.prefix.pop_back();
	return options;
}

int number_for_client(int number)
{
	switch (number) {
	/* For these two, XRootD makes the client wait and try again, also where it expects a count of bytes. */
	case ETIMEDOUT:
	case EBUSY:
	case EHOSTDOWN:
		return -ENETUNREACH;
	/* kXR_Overloaded */
	case EAGAIN:
		return -EUSERS;
	default:
		return number > 0 ? -number : -EFAULT;
	}
}

Site::Site(Options options, XrdSysLogger *logger) : log(logger, "namewire_"), options_(std::move(options)) {}

std::shared_ptr<namewire::Context> Site::context()
{
	const std::lock_guard<std::mutex> lock(mutex_);
	if (!context_) {
		namewire_options options = options_.limits;
		const auto text = [](const std::string &value) { return value.empty() ? nullptr : value.c_str(); };
		options.verify = text(options_.verify);
		options.transport = text(options_.transport);
		options.cache_dir = text(options_.cache_dir);
		options.cache_dir_size = text(options_.cache_dir_size);
		context_ = std::make_shared<namewire::Context>(options);
		const auto counters = context_->cache_counters();
		if (*counters.warning)
			log.Emsg("config", counters.warning);
	}
	return context_;
}

std::string Site::name_of(const char *path) const
{
	std::string name = options_.prefix;
	std::istringstream parts(path);
	std::string part;
	while (std::getline(parts, part, '/')) {
		if (part == "..")
			throw error_of(ENOENT, "a path with ..");
		if (!part.empty() && part != ".")
			push_component(name, part);
	}
	return name.empty() ? "/" : name;
}

void Site::stat(const std::string &name, struct stat *buffer)
{
	const auto context = this->context();
	struct namewire_stat found = context->stat(name);
	/* The first and the last segment state the length where metadata does not. */
	if (!found.is_directory && !found.size_known)
		found = context->open(name).stat();
	fill(name, found, buffer);
}

void Site::fill(const std::string &name, const struct namewire_stat &found, struct stat *buffer)
{
	std::memset(buffer, 0, sizeof *buffer);
	/* Everybody who may fetch the name may read. */
	buffer->st_mode = found.is_directory ? S_IFDIR | 0555 : S_IFREG | 0444;
	buffer->st_size = static_cast<off_t>(found.size);
	buffer->st_ino = std::hash<std::string>()(name + '\0' + std::to_string(found.version));
	buffer->st_nlink = 1;
	buffer->st_blksize = 1 << 20;
	buffer->st_blocks = static_cast<blkcnt_t>((found.size + 511) / 512);
	const auto nanoseconds = found.modified_ns;
	buffer->st_mtim.tv_sec = static_cast<time_t>(nanoseconds / 1000000000);
	buffer->st_mtim.tv_nsec = static_cast<long>(nanoseconds % 1000000000);
	buffer->st_atim = buffer->st_ctim = buffer->st_mtim;
}

int Site::report(const char *operation, const char *path, int number, const char *text)
{
	/* A client asks for what does not exist: nothing is wrong here. */
	if (number != ENOENT && number != EISDIR && number != ENOTDIR)
		log.Emsg(operation, path, "failed:", text);
	return number_for_client(number);
}

} // namespace namewire_xrootd
