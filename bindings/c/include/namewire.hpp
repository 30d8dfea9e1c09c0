/* namewire.h for C++17: objects that close themselves, and exceptions. */
#ifndef NAMEWIRE_HPP
#define NAMEWIRE_HPP

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "namewire.h"

namespace namewire {

/* A failure: code() has the number as in errno, what() the text. */
class Error : public std::system_error {
public:
	explicit Error(const namewire_error &error)
		: std::system_error(error.number, std::generic_category(), error.text)
	{
	}
};

/* An entry of a directory. */
struct Entry {
	std::string name;
	bool is_directory;
};

/* An entry of a directory, described. */
struct DescribedEntry {
	std::string name;
	struct namewire_stat stat;
};

/* One version of a file. Reads may be called by many threads. */
class File {
public:
	/* Name with version. */
	std::string name() const { return namewire_file_name(file_.get()); }

	struct namewire_stat stat() const
	{
		struct namewire_stat found{};
		namewire_error error{};
		if (namewire_fstat(file_.get(), &found, &error) != 0)
			throw Error(error);
		return found;
	}

	/* Length in bytes. */
	std::uint64_t size() const { return stat().size; }

	/* Reads up to `length` bytes at `offset`; returns their number: fewer at the end of the file. */
	std::size_t pread(void *buffer, std::size_t length, std::uint64_t offset) const
	{
		namewire_error error{};
		const ssize_t count = namewire_pread(file_.get(), buffer, length, offset, &error);
		if (count < 0)
			throw Error(error);
		return static_cast<std::size_t>(count);
	}

	/* Reads several parts, fetched together; returns the number of bytes in all. */
	std::size_t preadv(std::vector<namewire_part> &parts) const
	{
		namewire_error error{};
		const ssize_t count = namewire_preadv(file_.get(), parts.data(), parts.size(), &error);
		if (count < 0)
			throw Error(error);
		return static_cast<std::size_t>(count);
	}

private:
	friend class Context;
	struct Close {
		void operator()(namewire_file *file) const { namewire_close(file); }
	};
	explicit File(namewire_file *file) : file_(file) {}
	std::unique_ptr<namewire_file, Close> file_;
};

/* An Interest that waits for an answer. Destroyed without one, it is answered with a Nack. */
class Interest {
public:
	explicit Interest(namewire_interest *interest) : interest_(interest) {}

	std::string name() const { return namewire_interest_name(interest_.get()); }

	/* ApplicationParameters; empty if there are none. Valid until the Interest is answered. */
	std::string_view parameters() const
	{
		std::size_t length = 0;
		const void *bytes = namewire_interest_parameters(interest_.get(), &length);
		return {static_cast<const char *>(bytes), bytes ? length : 0};
	}

	/* Answers with Data of the name of the Interest. */
	void answer(std::string_view content) { answer_as(nullptr, content); }

	/* Answers with Data of a longer name. */
	void answer(const std::string &name, std::string_view content) { answer_as(name.c_str(), content); }

	/* Answers with a Nack. */
	void nack() { interest_.reset(); }

private:
	struct Nack {
		void operator()(namewire_interest *interest) const { namewire_nack(interest); }
	};

	void answer_as(const char *name, std::string_view content)
	{
		namewire_error error{};
		if (namewire_answer(interest_.release(), name, content.data(), content.size(), &error) != 0)
			throw Error(error);
	}

	std::unique_ptr<namewire_interest, Nack> interest_;
};

/* Something that is served, until it is destroyed. A function that answers Interests may not destroy its own service. */
class Service {
public:
	/* The prefix, or the name with version of what was published. */
	std::string name() const { return namewire_service_name(service_.get()); }

	/* Ends it; throws if the forwarder did not remove the route. */
	void end()
	{
		namewire_error error{};
		if (namewire_unserve(service_.release(), &error) != 0)
			throw Error(error);
	}

private:
	friend class Context;
	using Answer = std::function<void(Interest)>;

	struct End {
		void operator()(namewire_service *service) const { namewire_unserve(service, nullptr); }
	};

	explicit Service(namewire_service *service, std::unique_ptr<Answer> answer = nullptr)
		: answer_(std::move(answer)), service_(service)
	{
	}

	static void call(void *answer, namewire_interest *interest)
	{
		try {
			(*static_cast<Answer *>(answer))(Interest(interest));
		} catch (...) {
			/* The Interest was answered with a Nack when it was destroyed. */
		}
	}

	/* Destroyed after the service, which calls it. */
	std::unique_ptr<Answer> answer_;
	std::unique_ptr<namewire_service, End> service_;
};

/* A connection to a forwarder. May be used by many threads. */
class Context {
public:
	Context() : Context(default_options()) {}

	explicit Context(const namewire_options &options)
	{
		namewire_error error{};
		context_.reset(namewire_connect(&options, &error));
		if (!context_)
			throw Error(error);
	}

	/* Options that all have their defaults. */
	static namewire_options default_options()
	{
		namewire_options options{};
		options.size = sizeof options;
		return options;
	}

	/* Opens the current version of a file. */
	File open(const std::string &name) const
	{
		namewire_error error{};
		namewire_file *file = namewire_open(context_.get(), name.c_str(), &error);
		if (!file)
			throw Error(error);
		return File(file);
	}

	/* Describes the current version of a file or directory. */
	struct namewire_stat stat(const std::string &name) const
	{
		struct namewire_stat found{};
		namewire_error error{};
		if (namewire_stat(context_.get(), name.c_str(), &found, &error) != 0)
			throw Error(error);
		return found;
	}

	/* Describes several files and directories, many at a time. */
	void stat_each(std::vector<namewire_lookup> &lookups) const
	{
		namewire_error error{};
		if (namewire_stat_each(context_.get(), lookups.data(), lookups.size(), &error) != 0)
			throw Error(error);
	}

	/* The entries of a directory, in order. */
	std::vector<Entry> list(const std::string &name) const
	{
		const auto directory = listing(name, namewire_opendir);
		std::vector<Entry> entries;
		namewire_entry entry{};
		while (namewire_readdir(directory.get(), &entry) == 1)
			entries.push_back({entry.name, entry.is_directory != 0});
		return entries;
	}

	/* The entries of a directory, in order, described many at a time. */
	std::vector<DescribedEntry> list_described(const std::string &name) const
	{
		const auto directory = listing(name, namewire_opendirplus);
		std::vector<DescribedEntry> entries;
		namewire_entry entry{};
		struct namewire_stat found{};
		while (namewire_readdirplus(directory.get(), &entry, &found) == 1)
			entries.push_back({entry.name, found});
		return entries;
	}

	/* What the caches did. */
	struct namewire_cache_counters cache_counters() const
	{
		struct namewire_cache_counters counters{};
		namewire_error error{};
		if (namewire_cache_counters(context_.get(), &counters, &error) != 0)
			throw Error(error);
		return counters;
	}

	/* Options that all have their defaults. */
	static namewire_serve_options default_serve_options()
	{
		namewire_serve_options options{};
		options.size = sizeof options;
		return options;
	}

	/* Publishes bytes as the current version of an object. */
	Service publish(const std::string &name, std::string_view content,
		const namewire_serve_options &options = default_serve_options()) const
	{
		namewire_error error{};
		return served(namewire_publish(context_.get(), name.c_str(), content.data(), content.size(), &options, &error), error);
	}

	/* Serves a file, or the files below a directory. */
	Service serve_path(const std::string &name, const std::string &path,
		const namewire_serve_options &options = default_serve_options()) const
	{
		namewire_error error{};
		return served(namewire_serve_path(context_.get(), name.c_str(), path.c_str(), &options, &error), error);
	}

	/* Calls a function for the Interests below a prefix, on a thread of the library. */
	Service serve(const std::string &prefix, std::function<void(Interest)> answer,
		const namewire_serve_options &options = default_serve_options()) const
	{
		namewire_error error{};
		auto kept = std::make_unique<Service::Answer>(std::move(answer));
		namewire_service *service =
			namewire_serve(context_.get(), prefix.c_str(), Service::call, kept.get(), &options, &error);
		return served(service, error, std::move(kept));
	}

private:
	struct CloseDirectory {
		void operator()(namewire_directory *directory) const { namewire_closedir(directory); }
	};
	using Listing = std::unique_ptr<namewire_directory, CloseDirectory>;

	Listing listing(const std::string &name,
		namewire_directory *(*open)(namewire_context *, const char *, namewire_error *)) const
	{
		namewire_error error{};
		Listing directory(open(context_.get(), name.c_str(), &error));
		if (!directory)
			throw Error(error);
		return directory;
	}

	static Service served(namewire_service *service, const namewire_error &error,
		std::unique_ptr<Service::Answer> answer = nullptr)
	{
		if (!service)
			throw Error(error);
		return Service(service, std::move(answer));
	}

	struct Close {
		void operator()(namewire_context *context) const { namewire_disconnect(context); }
	};
	std::unique_ptr<namewire_context, Close> context_;
};

} // namespace namewire

#endif
